#include "kernels/cpu/optimizer.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/cpu/test_util.h"

namespace recurve::cpu {
namespace {

// Parameters and moments, in T.
template <typename T>
struct State {
  explicit State(const std::vector<float>& start)
      : parameters(start.begin(), start.end()),
        first(start.size()),
        second(start.size()) {}

  std::vector<T> parameters, first, second;
};

struct Case {
  std::string name;
  OptimizerArgs options;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, OptimizerKind kind, auto change) {
    OptimizerArgs options;
    options.kind = kind;
    options.learning_rate = 0.01f;
    options.gradient_scale = 0.5f;
    change(options);
    cases.push_back({std::move(name), options});
  };
  add("sgd", OptimizerKind::kSgd, [](OptimizerArgs&) {});
  add("sgd with decay", OptimizerKind::kSgd,
      [](OptimizerArgs& options) { options.weight_decay = 0.1f; });
  add("momentum with decay", OptimizerKind::kSgd, [](OptimizerArgs& options) {
    options.momentum = 0.9f;
    options.weight_decay = 0.1f;
  });
  add("adam", OptimizerKind::kAdam, [](OptimizerArgs&) {});
  add("adam with decay", OptimizerKind::kAdam,
      [](OptimizerArgs& options) { options.weight_decay = 0.1f; });
  add("adamw", OptimizerKind::kAdamW, [](OptimizerArgs& options) {
    options.weight_decay = 0.1f;
    options.beta1 = 0.8f;
    options.beta2 = 0.95f;
    options.epsilon = 1e-6f;
  });
  return cases;
}

// torch.optim's formulas, in double, one parameter at a time.
void ReferenceUpdate(const OptimizerArgs& o,
                     const std::vector<float>& gradients,
                     State<double>& state) {
  const double lr = o.learning_rate;
  const double decay = o.weight_decay;
  for (size_t i = 0; i < gradients.size(); ++i) {
    double& p = state.parameters[i];
    double& m = state.first[i];
    double& v = state.second[i];
    double g = static_cast<double>(o.gradient_scale) * gradients[i];
    if (o.kind == OptimizerKind::kAdamW) {
      p *= 1.0 - lr * decay;
    } else {
      g += decay * p;
    }
    if (o.kind == OptimizerKind::kSgd) {
      m = o.momentum * m + g;
      p -= lr * m;
      continue;
    }
    const double beta1 = o.beta1;
    const double beta2 = o.beta2;
    m = beta1 * m + (1.0 - beta1) * g;
    v = beta2 * v + (1.0 - beta2) * g * g;
    const double m_hat = m / (1.0 - std::pow(beta1, o.step));
    const double v_hat = v / (1.0 - std::pow(beta2, o.step));
    p -= lr * m_hat / (std::sqrt(v_hat) + o.epsilon);
  }
}

absl::Status UpdateState(OptimizerArgs options,
                         const std::vector<float>& gradients,
                         State<float>& state) {
  options.count = static_cast<int64_t>(gradients.size());
  options.gradients = gradients.data();
  options.parameters = state.parameters.data();
  options.first_moment = state.first.data();
  options.second_moment = state.second.data();
  return Update(options);
}

TEST(Update, FollowsTheFormulasInDoubleOverManySteps) {
  constexpr int64_t kCount = 1003;
  constexpr int64_t kSteps = 50;
  for (Case test : Cases()) {
    SCOPED_TRACE(test.name);
    const std::vector<float> start = RandomFloats(kCount, 1, 2.0f);
    State<float> state(start);
    State<double> reference(start);
    for (int64_t step = 1; step <= kSteps; ++step) {
      const std::vector<float> gradients = RandomFloats(kCount, 100 + step);
      test.options.step = step;
      ASSERT_TRUE(UpdateState(test.options, gradients, state).ok());
      ReferenceUpdate(test.options, gradients, reference);
    }
    for (int64_t i = 0; i < kCount; ++i) {
      // Each step may round the parameter, below 4 in size, by half an ulp of
      // 2^-22, and what is added to it by less.
      ASSERT_NEAR(state.parameters[i], reference.parameters[i],
                  kSteps * 0x1p-23)
          << i;
    }
  }
}

TEST(Update, BiasCorrectionIsRightAtAnyStep) {
  for (int64_t step : {1, 2, 3, 10, 1000, 123457, 1 << 30}) {
    OptimizerArgs options;
    options.kind = OptimizerKind::kAdam;
    options.learning_rate = 1.0f;
    options.step = step;
    State<float> state({0.0f});
    ASSERT_TRUE(UpdateState(options, {1.0f}, state).ok());
    State<double> reference({0.0f});
    ReferenceUpdate(options, {1.0f}, reference);
    EXPECT_NEAR(state.parameters[0] / reference.parameters[0], 1.0, 1e-6)
        << step;
  }
}

TEST(Update, IsTheSameOnAnyInstructionSet) {
  for (const Case& test : Cases()) {
    SCOPED_TRACE(test.name);
    ExpectSameOnAnyInstructionSet([&] {
      State<float> state(RandomFloats(1003, 1, 2.0f));
      EXPECT_TRUE(UpdateState(test.options, RandomFloats(1003, 2), state).ok());
      return state.parameters;
    });
  }
}

TEST(Update, IsTheSameForAnyThreads) {
  for (const Case& test : Cases()) {
    SCOPED_TRACE(test.name);
    ExpectSameForAnyThreads([&] {
      State<float> state(RandomFloats(100003, 1, 2.0f));
      EXPECT_TRUE(
          UpdateState(test.options, RandomFloats(100003, 2), state).ok());
      state.parameters.insert(state.parameters.end(), state.second.begin(),
                              state.second.end());
      return state.parameters;
    });
  }
}

TEST(Update, AParameterDoesNotDependOnItsNeighbours) {
  for (const Case& test : Cases()) {
    SCOPED_TRACE(test.name);
    const std::vector<float> start = RandomFloats(37, 1, 2.0f);
    const std::vector<float> gradients = RandomFloats(37, 2);
    State<float> together(start);
    ASSERT_TRUE(UpdateState(test.options, gradients, together).ok());
    for (int64_t i = 0; i < 37; ++i) {
      State<float> alone({start[i]});
      ASSERT_TRUE(UpdateState(test.options, {gradients[i]}, alone).ok());
      EXPECT_EQ(alone.parameters[0], together.parameters[i]) << i;
    }
  }
}

// What torch 1.13 gives for
//
//   p = torch.tensor([0.5, -1.25, 2.0, 0.0], requires_grad=True)
//   optimizer = OPTIMIZER([p], OPTIONS)
//   for g in GRADIENTS: p.grad = torch.tensor(g) * 0.5; optimizer.step()
//   print(["%.9g" % x for x in p.tolist()])
//
// with the gradients below and each test's optimizer and options.
constexpr float kStart[] = {0.5f, -1.25f, 2.0f, 0.0f};
constexpr float kGradients[5][4] = {{0.1f, -0.2f, 0.3f, 1.0f},
                                    {-0.4f, 0.25f, 0.3f, -1.0f},
                                    {0.05f, 0.6f, -0.7f, 0.0f},
                                    {1.5f, -0.1f, 0.0f, 2.0f},
                                    {0.2f, 0.2f, -0.2f, 1e-4f}};

void ExpectTorchGives(OptimizerArgs options,
                      const std::vector<float>& expected) {
  State<float> state(std::vector<float>(kStart, kStart + 4));
  options.gradient_scale = 0.5f;
  for (int64_t step = 1; step <= 5; ++step) {
    const float* gradients = kGradients[step - 1];
    options.step = step;
    ASSERT_TRUE(UpdateState(options,
                            std::vector<float>(gradients, gradients + 4), state)
                    .ok());
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(state.parameters[i], expected[i], 3e-7) << i;
  }
}

TEST(Update, MatchesTorchSgd) {  // SGD, lr=0.1
  OptimizerArgs options;
  options.learning_rate = 0.1f;
  ExpectTorchGives(options,
                   {0.42750001f, -1.28750002f, 2.0150001f, -0.100005001f});
}

TEST(Update, MatchesTorchSgdWithWeightDecay) {
  OptimizerArgs options;  // SGD, lr=0.1, weight_decay=0.01
  options.learning_rate = 0.1f;
  options.weight_decay = 0.01f;
  ExpectTorchGives(options,
                   {0.425045043f, -1.28120995f, 2.00505495f, -0.0998551473f});
}

TEST(Update, MatchesTorchSgdWithMomentum) {
  OptimizerArgs options;  // SGD, lr=0.1, momentum=0.9, weight_decay=0.01
  options.learning_rate = 0.1f;
  options.momentum = 0.9f;
  options.weight_decay = 0.01f;
  ExpectTorchGives(options,
                   {0.38246274f, -1.31739497f, 1.96587217f, -0.222303346f});
}

TEST(Update, MatchesTorchAdam) {  // Adam, lr=0.01
  OptimizerArgs options;
  options.kind = OptimizerKind::kAdam;
  options.learning_rate = 0.01f;
  ExpectTorchGives(options,
                   {0.489541769f, -1.25699329f, 1.98493338f, -0.0174713787f});
}

TEST(Update, MatchesTorchAdamWithWeightDecay) {
  OptimizerArgs options;  // Adam, lr=0.01, weight_decay=0.1
  options.kind = OptimizerKind::kAdam;
  options.learning_rate = 0.01f;
  options.weight_decay = 0.1f;
  ExpectTorchGives(options,
                   {0.480339587f, -1.22716284f, 1.96202445f, -0.0174188446f});
}

TEST(Update, MatchesTorchAdamW) {
  OptimizerArgs options;  // AdamW, lr=0.01, betas=(0.8, 0.95), eps=1e-6,
  options.kind = OptimizerKind::kAdamW;  // weight_decay=0.1
  options.learning_rate = 0.01f;
  options.beta1 = 0.8f;
  options.beta2 = 0.95f;
  options.epsilon = 1e-6f;
  options.weight_decay = 0.1f;
  ExpectTorchGives(options,
                   {0.486201942f, -1.25229263f, 1.9770993f, -0.0171757005f});
}

TEST(Update, PlainSgdNeedsNoMoments) {
  std::vector<float> parameters = {1.0f, 2.0f};
  const std::vector<float> gradients = {4.0f, -8.0f};
  OptimizerArgs args;
  args.count = 2;
  args.parameters = parameters.data();
  args.gradients = gradients.data();
  args.learning_rate = 0.25f;
  ASSERT_TRUE(Update(args).ok());
  EXPECT_EQ(parameters, std::vector<float>({0.0f, 4.0f}));
}

TEST(Update, ZeroGradientsWithoutDecayMoveNothing) {
  for (Case test : Cases()) {
    SCOPED_TRACE(test.name);
    test.options.weight_decay = 0.0f;
    const std::vector<float> start = RandomFloats(40, 1);
    State<float> state(start);
    ASSERT_TRUE(UpdateState(test.options, std::vector<float>(40), state).ok());
    EXPECT_EQ(state.parameters, start);
  }
}

TEST(Update, RefusesMissingBuffersAndStepZero) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  std::vector<float> values(4), moments(4);
  OptimizerArgs args;
  args.count = 4;
  EXPECT_EQ(Update(args).code(), kInvalid);  // no parameters
  args.parameters = values.data();
  EXPECT_EQ(Update(args).code(), kInvalid);  // no gradients
  args.gradients = values.data();
  EXPECT_TRUE(Update(args).ok());
  args.momentum = 0.5f;
  EXPECT_EQ(Update(args).code(), kInvalid);  // no momentum buffer
  args.kind = OptimizerKind::kAdam;
  args.first_moment = moments.data();
  EXPECT_EQ(Update(args).code(), kInvalid);  // no second moment
  args.second_moment = moments.data();
  EXPECT_TRUE(Update(args).ok());
  args.step = 0;
  EXPECT_EQ(Update(args).code(), kInvalid);
}

}  // namespace
}  // namespace recurve::cpu
