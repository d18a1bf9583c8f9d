// Clients that go on where they were when the server comes back, and check that
// it does so too.
#ifndef RECURVE_TESTS_FAULTS_ACTORS_H_
#define RECURVE_TESTS_FAULTS_ACTORS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/client.h"
#include "tests/faults/promises.h"

namespace recurve::faults {

// What it finds wrong it says by gtest's expectations.
class Actor {
 public:
  explicit Actor(Promises& promises) : promises_(promises) {}
  virtual ~Actor() = default;

  // Does the next piece of work, or, after Unavailable, the same again.
  virtual absl::Status Next(Client& client) = 0;
  // The server is another one than before.
  virtual void Reconnected() {}
  // Pieces done.
  int64_t done() const { return done_; }

  // With a new server: Next again and again, until `stop` or it has gone.
  void Work(Client& client, const std::atomic<bool>& stop);

 protected:
  Promises& promises_;
  int64_t done_ = 0;
};

// Uploads datasets of up to `max_bytes` and deletes all but the last `kept`.
class Uploader : public Actor {
 public:
  Uploader(Promises& promises, int64_t kept, int64_t max_bytes)
      : Actor(promises), kept_(kept), max_bytes_(max_bytes) {}
  absl::Status Next(Client& client) override;

 private:
  const int64_t kept_, max_bytes_;
};

// Creates models and imports each under another name; deletes all but the last
// `kept` of those created.
class Publisher : public Actor {
 public:
  Publisher(Promises& promises, int64_t kept) : Actor(promises), kept_(kept) {}
  absl::Status Next(Client& client) override;

 private:
  const int64_t kept_;
  absl::Status Create(Client& client, const std::string& id);
  absl::Status Import(Client& client, const std::string& id,
                      const std::string& from);
};

// Submits one job after another and watches each to its end: no event may be
// missed or come twice, and the weights are those of `sha256`.
class Trainee : public Actor {
 public:
  // `spec` names a dataset that is there. An empty `sha256` is filled in by the
  // first job. A job that fails makes Next return Aborted with its cause; the
  // next one is another job.
  Trainee(Promises& promises, const std::string& name,
          const v1::TrainSpec& spec, std::string sha256 = "");

  absl::Status Next(Client& client) override;
  const std::string& sha256() const { return sha256_; }

 private:
  absl::Status Submit(Client& client);
  absl::Status Watch(Client& client);
  absl::Status CheckEvents(Client& client) const;
  absl::Status CheckEnd(Client& client);

  const std::string name_;
  const v1::TrainSpec spec_;
  std::string sha256_;
  int64_t failed_ = 0;               // jobs
  std::string job_;                  // as it was acknowledged; empty: not yet
  std::vector<std::string> events_;  // seen, serialized
  v1::Job last_;
};

// Trains by numbered Steps: sends the last one again when the server is back,
// which must answer as it did. The weights are those of `sha256`.
class Stepper : public Actor {
 public:
  Stepper(Promises& promises, const v1::TrainSpec& spec,
          std::string sha256 = "");

  // A whole training.
  absl::Status Next(Client& client) override;
  void Reconnected() override { repeat_ = !replies_.empty() && !published_; }
  // Its next step alone.
  absl::Status OneStep(Client& client);
  const std::string& sha256() const { return sha256_; }
  int64_t retries() const { return retries_; }

 private:
  absl::Status Create(Client& client);
  absl::Status Prepare(Client& client);
  absl::Status Repeat(Client& client);
  absl::Status Finish(Client& client);
  absl::Status Publish(Client& client);
  v1::StepRequest Request(int64_t number) const;

  const v1::TrainSpec spec_;
  std::string sha256_;
  std::vector<v1::ReadBatchesResponse> batches_;
  std::string trainer_;               // as it was acknowledged; empty: not yet
  bool repeat_ = false;               // the last step first
  std::vector<std::string> replies_;  // serialized, by number from 1
  bool published_ = false;            // and so perhaps deleted
  int64_t retries_ = 0;
};

}  // namespace recurve::faults

#endif  // RECURVE_TESTS_FAULTS_ACTORS_H_
