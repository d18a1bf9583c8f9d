#include "server/kserve/parameters.h"

#include <climits>
#include <string>

#include "gtest/gtest.h"

namespace recurve::server::kserve {
namespace {

absl::Status Error(const ParameterMap& parameters) {
  return ReadParameters(parameters).status();
}

TEST(ParametersTest, NothingSaidIsARequestOfItsOwn) {
  const auto read = ReadParameters({});
  ASSERT_TRUE(read.ok());
  EXPECT_FALSE(read->sequence.has_value());
  EXPECT_EQ(read->priority, 0);
  EXPECT_EQ(read->timeout, absl::InfiniteDuration());
  EXPECT_EQ(read->top_k, 0);
  EXPECT_FALSE(read->enable_empty_final_response);
}

TEST(ParametersTest, ReadsWhatClientsSend) {
  ParameterMap parameters;
  parameters["sequence_id"].set_int64_param(42);
  parameters["sequence_start"].set_bool_param(true);
  parameters["sequence_end"].set_bool_param(true);
  parameters["priority"].set_uint64_param(1);
  parameters["timeout"].set_int64_param(2500);
  parameters["top_k"].set_int64_param(3);
  parameters["triton_enable_empty_final_response"].set_bool_param(true);
  parameters["of_somebody_else"].set_string_param("x");
  const auto read = ReadParameters(parameters);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(read->sequence.has_value());
  EXPECT_TRUE(read->sequence->start);
  EXPECT_TRUE(read->sequence->end);
  EXPECT_EQ(read->priority, 1);
  EXPECT_EQ(read->timeout, absl::Microseconds(2500));
  EXPECT_EQ(read->top_k, 3);
  EXPECT_TRUE(read->enable_empty_final_response);
}

TEST(ParametersTest, IdsOfDifferentKindsAreDifferentSequences) {
  const auto id = [](auto set) {
    ParameterMap parameters;
    set(parameters["sequence_id"]);
    return ReadParameters(parameters)->sequence->id;
  };
  const std::string number = id([](auto& p) { p.set_int64_param(7); });
  EXPECT_EQ(id([](auto& p) { p.set_uint64_param(7); }), number);
  EXPECT_NE(id([](auto& p) { p.set_string_param("7"); }), number);
  EXPECT_NE(id([](auto& p) { p.set_string_param("#7"); }), number);
  // The same 64 bits.
  EXPECT_EQ(id([](auto& p) { p.set_int64_param(-1); }),
            id([](auto& p) { p.set_uint64_param(UINT64_MAX); }));
}

TEST(ParametersTest, ZeroAndTheEmptyStringAreNoSequence) {
  for (const bool is_string : {false, true}) {
    ParameterMap parameters;
    if (is_string) {
      parameters["sequence_id"].set_string_param("");
    } else {
      parameters["sequence_id"].set_int64_param(0);
    }
    parameters["sequence_start"].set_bool_param(false);
    const auto read = ReadParameters(parameters);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_FALSE(read->sequence.has_value());
  }
}

TEST(ParametersTest, ErrorsNameTheParameter) {
  const struct {
    const char* name;
    void (*set)(inference::InferParameter&);
  } bad[] = {
      {"sequence_id", [](auto& p) { p.set_bool_param(true); }},
      {"sequence_id",
       [](auto& p) { p.set_string_param(std::string(200, 'x')); }},
      {"sequence_start", [](auto& p) { p.set_int64_param(1); }},
      {"sequence_end", [](auto& p) { p.set_string_param("true"); }},
      {"priority", [](auto& p) { p.set_int64_param(-1); }},
      {"priority", [](auto& p) { p.set_uint64_param(UINT64_MAX); }},
      {"timeout", [](auto& p) { p.set_int64_param(-1); }},
      {"timeout", [](auto& p) { p.set_double_param(0.5); }},
      {"top_k", [](auto& p) { p.set_int64_param(0); }},
      {"triton_enable_empty_final_response", [](auto&) {}},
  };
  for (const auto& [name, set] : bad) {
    ParameterMap parameters;
    set(parameters[name]);
    const absl::Status error = Error(parameters);
    EXPECT_TRUE(absl::IsInvalidArgument(error)) << name;
    EXPECT_NE(error.message().find(name), absl::string_view::npos) << error;
  }
}

TEST(ParametersTest, FlagsOfASequenceNeedItsId) {
  ParameterMap parameters;
  parameters["sequence_start"].set_bool_param(true);
  EXPECT_TRUE(absl::IsInvalidArgument(Error(parameters)));
}

}  // namespace
}  // namespace recurve::server::kserve
