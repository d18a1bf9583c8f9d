#include "tests/pressure/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "grpcpp/create_channel_posix.h"

namespace recurve::pressure {
namespace {

int ConnectSocket(const std::string& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(
      static_cast<uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    std::perror(address.c_str());
    std::abort();
  }
  fcntl(socket, F_SETFL, O_NONBLOCK);
  return socket;
}

}  // namespace

Connection::Connection(const std::string& address)
    : socket_(ConnectSocket(address)) {
  // The channel closes the name that it is given.
  const auto channel = grpc::CreateInsecureChannelFromFd(
      address, fcntl(socket_, F_DUPFD_CLOEXEC, 0));
  inference_ = v1::Inference::NewStub(channel);
  sessions_ = v1::Sessions::NewStub(channel);
}

Connection::~Connection() { close(socket_); }

void Connection::Cut() {
  cut_ = true;
  shutdown(socket_, SHUT_RDWR);
}

std::shared_ptr<Connection> Connections::Get(int client) {
  absl::MutexLock lock(&mutex_);
  auto& connection = connections_[client % connections_.size()];
  if (connection == nullptr || connection->is_cut()) {
    connection = std::make_shared<Connection>(address_);
  }
  return connection;
}

}  // namespace recurve::pressure
