// A scrape over HTTP beside what the API says.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/services/service_test_util.h"

namespace recurve::server {
namespace {

// What `GET path` on that address is answered with, headers included.
std::string HttpGet(const std::string& address, const std::string& path) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(connection, reinterpret_cast<sockaddr*>(&to), sizeof(to)),
            0);
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(write(connection, request.data(), request.size()),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = read(connection, buffer, sizeof(buffer))) > 0;) {
    answer.append(buffer, n);
  }
  close(connection);
  return answer;
}

class MetricsTest : public ServiceTest {
 protected:
  MetricsTest() {
    config.set_metrics_listen("127.0.0.1:0");
    Start();
  }

  // `name{labels}` -> value; every line must be one, or a comment.
  std::map<std::string, double> Scrape() {
    std::map<std::string, double> values;
    const std::string answer = HttpGet(server_->metrics_address(), "/metrics");
    EXPECT_EQ(answer.find("HTTP/1.1 200 OK"), 0u) << answer;
    const size_t body = answer.find("\r\n\r\n");
    for (const absl::string_view line :
         absl::StrSplit(answer.substr(body + 4), '\n', absl::SkipEmpty())) {
      if (line[0] == '#') continue;
      const size_t space = line.rfind(' ');
      double value = 0;
      EXPECT_TRUE(absl::SimpleAtod(line.substr(space + 1), &value)) << line;
      values[std::string(line.substr(0, space))] = value;
    }
    return values;
  }
};

TEST_F(MetricsTest, AScrapeSaysWhatTheApiSays) {
  CreateModel("lm", TokenConfig());
  v1::PredictRequest request;
  request.set_model("models/lm");
  *request.mutable_batch() = Tokens({{1, 2, 3}, {4}});
  v1::PredictResponse response;
  ExpectOk(Call(*inference, &v1::Inference::Stub::Predict, request, &response));
  request.set_model("models/absent");
  EXPECT_FALSE(
      Call(*inference, &v1::Inference::Stub::Predict, request, &response).ok());
  v1::ListDevicesResponse list;
  ExpectOk(Call(*devices, &v1::Devices::Stub::ListDevices,
                v1::ListDevicesRequest(), &list));

  const auto values = Scrape();
  const auto value = [&](const std::string& key) {
    const auto found = values.find(key);
    EXPECT_NE(found, values.end()) << key;
    return found == values.end() ? -1 : found->second;
  };
  const std::string predict =
      R"(recurve_calls_total{method="/recurve.v1.Inference/Predict",code=")";
  EXPECT_EQ(value(predict + R"(OK"})"), 1);
  EXPECT_EQ(value(predict + R"(NOT_FOUND"})"), 1);
  const std::string version = R"({model="lm",version="1"})";
  EXPECT_EQ(value("nv_inference_request_success" + version), 1);
  EXPECT_EQ(value("nv_inference_request_failure" + version), 0);
  EXPECT_EQ(value("nv_inference_count" + version), 2);
  EXPECT_EQ(value("nv_inference_pending_request_count" + version), 0);
  EXPECT_EQ(value("recurve_rows_total" + version), 4);
  EXPECT_GT(value("nv_inference_request_duration_us" + version), 0);
  EXPECT_EQ(value(R"(recurve_jobs{state="running"})"), 0);
  ASSERT_EQ(list.devices_size(), 2);
  for (const v1::Device& device : list.devices()) {
    const std::string label = absl::StrCat("{device=\"", device.name(), "\"}");
    EXPECT_EQ(value("recurve_device_rows_total" + label), device.rows());
    EXPECT_EQ(value("recurve_memory_budget_bytes" + label),
              device.budget_bytes());
    EXPECT_EQ(value("recurve_memory_training_budget_bytes" + label),
              device.training_budget_bytes());
    EXPECT_EQ(value("recurve_memory_reserved_bytes" + label),
              device.reserved_bytes());
    EXPECT_EQ(value("recurve_memory_used_bytes" + label),
              device.memory_bytes());
  }
}

TEST_F(MetricsTest, SessionsAreCounted) {
  CreateModel("lm", TokenConfig());
  v1::CreateSessionRequest request;
  request.set_model("models/lm");
  v1::Session session;
  ExpectOk(
      Call(*sessions, &v1::Sessions::Stub::CreateSession, request, &session));
  auto values = Scrape();
  EXPECT_EQ(values["recurve_sessions"], 1);
  EXPECT_EQ(values["recurve_sessions_started_total"], 1);
  EXPECT_EQ(values["recurve_session_state_bytes"], session.state_bytes());
}

TEST_F(MetricsTest, NothingElseIsServed) {
  for (const char* path : {"/", "/etc/passwd", "/data/jobs.db"}) {
    const std::string answer = HttpGet(server_->metrics_address(), path);
    EXPECT_NE(answer.find(" 404 Not Found"), std::string::npos) << answer;
  }
}

TEST_F(MetricsTest, APortThatIsInUseIsUnavailable) {
  ServerConfig second = config;
  second.set_data_dir(directory + "/other");
  second.set_metrics_listen(server_->metrics_address());
  const absl::Status status = Server::Start(second).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_NE(status.message().find("--metrics_listen"), absl::string_view::npos);
}

}  // namespace
}  // namespace recurve::server
