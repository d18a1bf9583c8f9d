#include "tests/faults/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "kernels/status.h"

namespace recurve::faults {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// HOST:PORT of its line `listening on HOST:PORT`; empty if that is not there.
std::string AddressIn(const std::string& log) {
  static constexpr char kWords[] = "listening on ";
  const size_t at = log.find(kWords);
  const size_t end = at == log.npos ? log.npos : log.find('\n', at);
  if (end == log.npos) return "";
  return log.substr(at + sizeof kWords - 1, end - at - sizeof kWords + 1);
}

pid_t Spawn(std::vector<std::string> arguments, const std::string& log) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t pid = 0;
  if (posix_spawn(&pid, argv[0], &files, nullptr, argv.data(), environ) != 0) {
    std::perror(argv[0]);
    std::abort();
  }
  posix_spawn_file_actions_destroy(&files);
  return pid;
}

}  // namespace

// In memory where that can be: what the tests do to a server does not depend on
// how fast a disk is, and the number of times they can do it does.
Folder::Folder() {
  for (const std::string& parent :
       {std::string("/dev/shm"), testing::TempDir()}) {
    path_ = parent + "/recurve-faults.XXXXXX";
    if (mkdtemp(path_.data()) != nullptr) return;
  }
  std::abort();
}

Folder::~Folder() {
  if (!testing::Test::HasFailure()) std::filesystem::remove_all(path_);
}

std::unique_ptr<ServerProcess> ServerProcess::Start(
    const std::string& data_dir, const std::string& devices,
    const std::vector<std::string>& flags,
    const std::vector<std::string>& program) {
  std::vector<std::string> arguments = program;
  arguments.insert(arguments.end(), {"--listen=127.0.0.1:0",
                                     absl::StrCat("--data_dir=", data_dir),
                                     absl::StrCat("--devices=", devices)});
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const std::string log = data_dir + ".log";
  return std::unique_ptr<ServerProcess>(
      new ServerProcess(Spawn(std::move(arguments), log), log));
}

absl::StatusOr<std::string> ServerProcess::Address() {
  const absl::Time deadline = absl::Now() + kPatience;
  while (absl::Now() < deadline) {
    std::string address = AddressIn(Log());
    if (!address.empty()) return address;
    if (!running()) return absl::UnavailableError("it ended: " + Log());
    absl::SleepFor(absl::Milliseconds(2));
  }
  return absl::DeadlineExceededError("it does not listen: " + Log());
}

absl::StatusOr<std::unique_ptr<Client>> ServerProcess::Connect() {
  ASSIGN_OR_RETURN(const std::string address, Address());
  return Client::Connect(address);
}

int64_t ServerProcess::ResidentBytes() const {
  std::ifstream file(absl::StrCat("/proc/", pid_, "/statm"));
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

bool ServerProcess::running() {
  if (pid_ != 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
  return pid_ != 0;
}

bool ServerProcess::EndsSoon() {
  const absl::Time deadline = absl::Now() + kPatience;
  while (running() && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  return !running();
}

std::string ServerProcess::Log() const { return ReadAll(log_); }

void ServerProcess::Kill() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  Wait();
}

int ServerProcess::Terminate() {
  if (pid_ == 0) return -1;
  kill(pid_, SIGTERM);
  return Wait();
}

int ServerProcess::Wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace recurve::faults
