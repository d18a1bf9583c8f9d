#include "server/access/token_file.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/file.h"
#include "kernels/status.h"

namespace recurve::server {
namespace {

constexpr int64_t kMaxFileBytes = 16 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<TokenFile>> TokenFile::Open(
    const std::string& path, absl::Time now,
    std::function<void(const absl::Status&)> warn) {
  auto file =
      std::unique_ptr<TokenFile>(new TokenFile(path, now, std::move(warn)));
  absl::MutexLock lock(&file->mutex_);
  ASSIGN_OR_RETURN(file->tokens_, file->Read());
  return file;
}

TokenFile::TokenFile(const std::string& path, absl::Time now,
                     std::function<void(const absl::Status&)> warn)
    : path_(path), warn_(std::move(warn)), looked_(now), file_({path}) {}

std::shared_ptr<const Tokens> TokenFile::Get(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  const bool jumped_back = now < looked_;
  if (!jumped_back && now - looked_ < kPeriod) return tokens_;
  looked_ = now;
  if (!file_.Changed()) return tokens_;
  auto tokens = Read();
  if (tokens.ok()) {
    tokens_ = *std::move(tokens);
  } else {
    warn_(tokens.status());
  }
  return tokens_;
}

absl::StatusOr<std::shared_ptr<const Tokens>> TokenFile::Read() const {
  const auto text = ReadFile(path_, kMaxFileBytes);
  const auto tokens = text.ok() ? Tokens::Parse(*text) : text.status();
  if (tokens.ok()) return std::make_shared<const Tokens>(*tokens);
  return absl::InvalidArgumentError(absl::StrCat(
      "--tokens_file: ", text.ok() ? absl::StrCat(path_, ": ") : "",
      tokens.status().message()));
}

}  // namespace recurve::server
