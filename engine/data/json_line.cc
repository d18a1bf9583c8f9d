#include "engine/data/json_line.h"

#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace recurve {
namespace {

constexpr absl::string_view kNames[kNumJsonFields] = {
    "tokens", "features", "label", "labels", "target", "weight", "weights"};

// Receives the parser's events and writes the numbers where they belong.
// Returning false stops the parser; error_ then says why.
class Handler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Handler(JsonLine* line) : line_(*line) {
    for (JsonNumbers& numbers : line_) {
      numbers.present = false;
      numbers.values.clear();
      numbers.row_ends.clear();
    }
  }

  const std::string& error() const { return error_; }

  bool start_object(size_t) override {
    if (in_object_) return NotNumbers();
    in_object_ = true;
    return true;
  }
  bool end_object() override { return true; }

  bool key(std::string& name) override {
    for (int field = 0; field < kNumJsonFields; ++field) {
      if (kNames[field] == name) return Begin(static_cast<JsonField>(field));
    }
    name_ = {};  // not the field before
    return Fail(absl::StrCat("unknown field \"",
                             absl::CHexEscape(name.substr(0, 50)), "\""));
  }

  bool start_array(size_t) override {
    if (!in_object_) return Fail("must be an object");
    if (++depth_ > 2) return Fail("is nested too deep");
    if (depth_ == 2) return Deepen();
    field_->depth = 1;
    return true;
  }
  bool end_array() override {
    if (--depth_ == 1) field_->row_ends.push_back(field_->values.size());
    return true;
  }

  bool number_integer(int64_t value) override {
    return Number(static_cast<double>(value), true);
  }
  bool number_unsigned(uint64_t value) override {
    return Number(static_cast<double>(value), true);
  }
  bool number_float(double value, const std::string&) override {
    return Number(value, false);
  }

  bool null() override { return NotNumbers(); }
  bool boolean(bool) override { return NotNumbers(); }
  bool string(std::string&) override { return NotNumbers(); }
  bool binary(nlohmann::json::binary_t&) override { return NotNumbers(); }

  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::json::exception& exception) override {
    // 406: a number that no double holds.
    error_ = absl::StrCat(
        exception.id == 406 ? "number out of range" : "malformed JSON",
        " at byte ", position, ", near \"",
        absl::CHexEscape(token.substr(0, 50)), "\"");
    return false;
  }

 private:
  bool Begin(JsonField field) {
    name_ = kNames[field];
    field_ = &line_[field];
    if (field_->present) return Fail("is there twice");
    field_->present = true;
    field_->depth = 0;
    field_->integral = true;
    return true;
  }

  // A row begins: it must be the first thing in the field or follow a row.
  bool Deepen() {
    if (field_->depth == 1 && !field_->values.empty()) return Uneven();
    field_->depth = 2;
    return true;
  }

  bool Number(double value, bool integral) {
    if (!in_object_) return Fail("must be an object");
    if (depth_ < field_->depth) return Uneven();
    field_->values.push_back(value);
    field_->integral &= integral;
    return true;
  }

  bool Uneven() { return Fail("mixes numbers and arrays"); }
  bool NotNumbers() {
    return Fail(in_object_ ? "must hold numbers" : "must be an object");
  }
  bool Fail(absl::string_view what) {
    error_ = name_.empty() ? std::string(what)
                           : absl::StrCat("field `", name_, "` ", what);
    return false;
  }

  JsonLine& line_;
  JsonNumbers* field_ = nullptr;
  absl::string_view name_;
  int depth_ = 0;
  bool in_object_ = false;
  std::string error_;
};

}  // namespace

absl::string_view JsonFieldName(JsonField field) { return kNames[field]; }

absl::Status ParseJsonLine(absl::string_view text, JsonLine* line) {
  Handler handler(line);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &handler)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(handler.error());
}

}  // namespace recurve
