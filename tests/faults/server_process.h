// A recurve_server of its own process, to be killed.
#ifndef RECURVE_TESTS_FAULTS_SERVER_PROCESS_H_
#define RECURVE_TESTS_FAULTS_SERVER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/client.h"

namespace recurve::faults {

// For what is sure to come, however slow the machine.
inline constexpr absl::Duration kPatience = absl::Minutes(4);

// A new folder of tests, removed at its end unless a test has failed.
class Folder {
 public:
  Folder();
  ~Folder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class ServerProcess {
 public:
  // Runs a server on loopback with what it prints in data_dir.log. Does not
  // wait for it. `program` takes recurve_server's flags.
  static std::unique_ptr<ServerProcess> Start(
      const std::string& data_dir, const std::string& devices,
      const std::vector<std::string>& flags = {},
      const std::vector<std::string>& program = {"server/recurve_server"});
  ~ServerProcess() { Kill(); }

  // HOST:PORT, once it listens. Unavailable if it ended instead, with what it
  // printed; DeadlineExceeded after kPatience.
  absl::StatusOr<std::string> Address();
  // A client of it; errors as Address's.
  absl::StatusOr<std::unique_ptr<Client>> Connect();

  // Of its memory that is in RAM now.
  int64_t ResidentBytes() const;

  bool running();
  // Whether it ends within kPatience: a client knows of the end of a process
  // before its parent does.
  bool EndsSoon();
  std::string Log() const;

  // kill -9, and waits until it has ended.
  void Kill();
  // SIGTERM; its exit status once it has ended. A client that is still
  // connected makes that take up to 5 seconds: it does not look up sooner.
  int Terminate();

 private:
  ServerProcess(pid_t pid, const std::string& log) : pid_(pid), log_(log) {}
  int Wait();

  pid_t pid_;  // 0: has ended
  const std::string log_;
};

}  // namespace recurve::faults

#endif  // RECURVE_TESTS_FAULTS_SERVER_PROCESS_H_
