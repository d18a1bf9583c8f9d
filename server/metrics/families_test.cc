// Every family by what a scrape shows of it.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "server/metrics/device_families.h"
#include "server/metrics/server_families.h"
#include "server/metrics/serving_families.h"

namespace recurve::server {
namespace {

// The lines of a scrape but comments.
std::vector<std::string> Scrape(const Families& families) {
  std::vector<std::string> lines;
  std::string line;
  for (const char c : prometheus::TextSerializer().Serialize(families)) {
    if (c != '\n') {
      line += c;
      continue;
    }
    if (line[0] != '#') lines.push_back(line);
    line.clear();
  }
  return lines;
}

TEST(ServingFamiliesTest, HaveTheNamesAndLabelsOfTriton) {
  ServingCounts counts;
  counts.succeeded = {3, absl::Microseconds(900)};
  counts.failed = {2, absl::Microseconds(100)};
  counts.cancelled = 1;
  counts.refused = 5;
  counts.queue = {3, absl::Microseconds(30)};
  counts.input = {3, absl::Microseconds(10)};
  counts.infer = {3, absl::Microseconds(600)};
  counts.output = {3, absl::Microseconds(20)};
  counts.sequences = 7;
  counts.rows = 40;
  counts.passes = 4;
  counts.passes_by_rows[8].passes = 3;
  counts.passes_by_rows[16].passes = 1;
  counts.pending = 6;
  Families families;
  AddServing({{"models/lm/versions/12", counts}}, families);
  const std::string labels = R"({model="lm",version="12"} )";
  const auto line = [&](const std::string& name, const std::string& value) {
    return name + labels + value;
  };
  const auto bucket = [](const std::string& le, const std::string& value) {
    return R"(recurve_pass_rows_bucket{model="lm",version="12",le=")" + le +
           "\"} " + value;
  };
  EXPECT_EQ(Scrape(families),
            (std::vector<std::string>{
                line("nv_inference_request_success", "3"),
                line("nv_inference_request_failure", "7"),
                line("nv_inference_count", "7"),
                line("nv_inference_exec_count", "4"),
                line("nv_inference_pending_request_count", "6"),
                line("recurve_requests_cancelled_total", "1"),
                line("recurve_requests_refused_total", "5"),
                line("recurve_rows_total", "40"),
                line("nv_inference_request_duration_us", "1000"),
                line("nv_inference_queue_duration_us", "30"),
                line("nv_inference_compute_input_duration_us", "10"),
                line("nv_inference_compute_infer_duration_us", "600"),
                line("nv_inference_compute_output_duration_us", "20"),
                line("recurve_pass_rows_count", "4"),
                line("recurve_pass_rows_sum", "40"),
                bucket("8", "3"),
                bucket("16", "4"),
                bucket("+Inf", "4"),
            }));
}

TEST(ServingFamiliesTest, WeightsInTrainingAreModelsWithoutAVersion) {
  Families families;
  AddServing({{"trainers/t", ServingCounts()}}, families);
  EXPECT_EQ(Scrape(families)[0],
            R"(nv_inference_request_success{model="trainers/t",version=""} 0)");
}

TEST(DeviceFamiliesTest, ShowLoadAndMemory) {
  DeviceSnapshot device;
  device.name = "devices/0";
  device.stats.rows = 1000;
  device.stats.busy_seconds = 1.5;
  device.stats.queued_tasks = 2;
  device.stats.load.busy_share = 0.75;
  device.stats.load.serving_share = 0.5;
  device.ledger.budget_bytes = 5000;
  device.ledger.serving_floor_bytes = 1000;
  device.ledger.reserved_bytes = 320;
  device.ledger.used_bytes = 200;
  device.ledger.owners.resize(2);
  device.ledger.owners[0].plan.weights = 100;
  device.ledger.owners[1].plan.weights = 200;
  device.ledger.owners[1].plan.sessions = 20;
  device.ledger.waiting.resize(3);
  Families families;
  AddDevices({device}, families);
  const std::string label = R"({device="devices/0"} )";
  const auto planned = [](const std::string& kind, const std::string& value) {
    return R"(recurve_memory_planned_bytes{device="devices/0",kind=")" + kind +
           "\"} " + value;
  };
  EXPECT_EQ(Scrape(families),
            (std::vector<std::string>{
                "recurve_device_rows_total" + label + "1000",
                "recurve_device_busy_seconds_total" + label + "1.5",
                "recurve_device_queued_tasks" + label + "2",
                "recurve_device_busy_ratio" + label + "0.75",
                "recurve_device_serving_ratio" + label + "0.5",
                "recurve_memory_budget_bytes" + label + "5000",
                "recurve_memory_training_budget_bytes" + label + "4000",
                "recurve_memory_reserved_bytes" + label + "320",
                "recurve_memory_used_bytes" + label + "200",
                "recurve_memory_waiting_requests" + label + "3",
                planned("weights", "300"),
                planned("gradients", "0"),
                planned("optimizer", "0"),
                planned("activations", "0"),
                planned("workspace", "0"),
                planned("sessions", "20"),
            }));
}

TEST(ServerFamiliesTest, CallsByMethodAndCode) {
  Families families;
  AddCalls({{{"/a.B/C", grpc::StatusCode::OK}, 2},
            {{"/a.B/C", grpc::StatusCode::NOT_FOUND}, 1}},
           families);
  EXPECT_EQ(Scrape(families),
            (std::vector<std::string>{
                R"(recurve_calls_total{method="/a.B/C",code="OK"} 2)",
                R"(recurve_calls_total{method="/a.B/C",code="NOT_FOUND"} 1)",
            }));
}

TEST(ServerFamiliesTest, JobsByState) {
  Families families;
  AddJobs({{JobState::kQueued, 4}, {JobState::kRunning, 1}}, families);
  EXPECT_EQ(Scrape(families), (std::vector<std::string>{
                                  R"(recurve_jobs{state="queued"} 4)",
                                  R"(recurve_jobs{state="validating"} 0)",
                                  R"(recurve_jobs{state="running"} 1)",
                                  R"(recurve_jobs{state="pausing"} 0)",
                                  R"(recurve_jobs{state="paused"} 0)",
                                  R"(recurve_jobs{state="cancelling"} 0)",
                              }));
}

TEST(ServerFamiliesTest, Sessions) {
  SessionStore::Statistics sessions;
  sessions.sessions = 1;
  sessions.bytes = 2;
  sessions.waiting = 3;
  sessions.started = 4;
  sessions.expired = 5;
  Families families;
  AddSessions(sessions, families);
  EXPECT_EQ(Scrape(families), (std::vector<std::string>{
                                  "recurve_sessions 1",
                                  "recurve_session_state_bytes 2",
                                  "recurve_session_waiting_requests 3",
                                  "recurve_sessions_started_total 4",
                                  "recurve_sessions_expired_total 5",
                              }));
}

TEST(ServerFamiliesTest, TheProgramSaysWhatItIs) {
  Families families;
  AddBuild(families);
  const auto lines = Scrape(families);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].find("recurve_build_info{compiler=\""), 0u);
  EXPECT_NE(lines[0].find("\"} 1"), std::string::npos);
}

}  // namespace
}  // namespace recurve::server
