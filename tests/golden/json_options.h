// The members of a JSON object, each taken once. What has the wrong type and
// what nobody took is an error: nothing is silently ignored.
#ifndef RECURVE_TESTS_GOLDEN_JSON_OPTIONS_H_
#define RECURVE_TESTS_GOLDEN_JSON_OPTIONS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace recurve::golden {

class JsonOptions {
 public:
  // `path` names the object in messages.
  JsonOptions(std::string path, nlohmann::json object)
      : path_(std::move(path)), object_(std::move(object)) {
    if (!object_.is_object()) Fail(path_, " is not an object");
  }

  // null counts as not there.
  bool Has(const std::string& name) const {
    return object_.is_object() && object_.contains(name) &&
           !object_[name].is_null();
  }

  // The member, or `otherwise` if it is not there.
  nlohmann::json Take(const std::string& name, nlohmann::json otherwise = {}) {
    if (!object_.is_object() || !object_.contains(name)) return otherwise;
    nlohmann::json value = object_[name];
    object_.erase(name);
    return value.is_null() ? otherwise : value;
  }
  bool TakeBool(const std::string& name, bool otherwise) {
    const nlohmann::json value = Take(name, otherwise);
    if (!value.is_boolean()) Fail(name, " is not true or false");
    return value.is_boolean() && value.get<bool>();
  }
  int64_t TakeInteger(const std::string& name, int64_t otherwise) {
    const nlohmann::json value = Take(name, otherwise);
    if (!value.is_number_integer()) Fail(name, " is not an integer");
    return value.is_number_integer() ? value.get<int64_t>() : 0;
  }
  double TakeNumber(const std::string& name, double otherwise) {
    const nlohmann::json value = Take(name, otherwise);
    if (!value.is_number()) Fail(name, " is not a number");
    return value.is_number() ? value.get<double>() : 0;
  }
  std::string TakeString(const std::string& name) {
    const nlohmann::json value = Take(name, "");
    if (!value.is_string()) Fail(name, " is not a string");
    return value.is_string() ? value.get<std::string>() : "";
  }

  // The first error, or what is left over.
  absl::Status Done() {
    if (status_.ok() && !object_.empty()) {
      Fail(object_.begin().key(), " is not understood");
    }
    return status_;
  }

 private:
  void Fail(const std::string& name, const char* what) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(absl::StrCat(path_, ": ", name, what));
  }

  std::string path_;
  nlohmann::json object_;
  absl::Status status_;
};

}  // namespace recurve::golden

#endif  // RECURVE_TESTS_GOLDEN_JSON_OPTIONS_H_
