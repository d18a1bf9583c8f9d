#include "engine/serve/state_pool.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/schedule/device_spec.h"
#include "engine/schedule/memory_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::Each;
using Kind = CarriedState::Kind;
using Values = CarriedState::Values;

constexpr int64_t kCarry = 6;

std::string Room(int64_t bytes) {
  return absl::StrCat("cpu:1:memory=", WorkspacePlan(1).total() + bytes);
}

struct Fixture {
  explicit Fixture(const std::string& spec)
      : devices(*ParseDevices(spec)),
        pool(std::make_unique<StatePool>(devices.device(0), 0)) {}

  // On the device's thread, and waits.
  void Do(const std::function<void(Backend&)>& task) {
    absl::Notification done;
    devices.device(0).Enqueue(TaskClass::kServing, [&](Backend& backend) {
      task(backend);
      done.Notify();
    });
    done.WaitForNotification();
  }
  void Place(CarriedState& state) {
    Do([&](Backend& backend) {
      EXPECT_TRUE(pool->Place(state, backend).ok());
    });
  }
  int64_t Reserved() {
    for (const auto& owner : devices.device(0).ledger().Snapshot().owners) {
      if (owner.owner == "sessions") return owner.reserved_bytes;
    }
    return 0;
  }

  DevicePool devices;
  std::unique_ptr<StatePool> pool;
};

std::shared_ptr<CarriedState> State(float value) {
  return CarriedState::Create(Values(kCarry, value), Kind::kPooled);
}

Values Read(const CarriedState& state) {
  absl::StatusOr<Values> read;
  absl::Notification done;
  state.Read([&](auto values) {
    read = std::move(values);
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_TRUE(read.ok()) << read.status();
  return *std::move(read);
}

TEST(StatePoolTest, AStateIsTheSameThereAndBack) {
  Fixture fixture("cpu:1");
  const auto state = State(3);
  EXPECT_EQ(state->device(), std::nullopt);
  fixture.Place(*state);
  EXPECT_EQ(state->device(), 0);
  EXPECT_EQ(Read(*state), Values(kCarry, 3));
  EXPECT_EQ(fixture.Reserved(), StateBlock::Bytes(kCarry));
  fixture.Do([&](Backend& backend) { fixture.pool->SpillAll(backend); });
  EXPECT_EQ(state->device(), std::nullopt);
  EXPECT_EQ(Read(*state), Values(kCarry, 3));
  EXPECT_EQ(fixture.Reserved(), 0);
}

TEST(StatePoolTest, PlacesAreUsedAgainAndABlockThatIsEmptyGivesItsMemoryBack) {
  Fixture fixture("cpu:1");
  auto stays = State(-1);
  fixture.Place(*stays);
  for (int i = 0; i < 3; ++i) {
    std::vector<std::shared_ptr<CarriedState>> states;
    for (int s = 1; s < StateBlock::kSlots; ++s) {
      states.push_back(State(static_cast<float>(s)));
      fixture.Place(*states.back());
    }
    for (int s = 1; s < StateBlock::kSlots; ++s) {
      EXPECT_EQ(Read(*states[s - 1]), Values(kCarry, static_cast<float>(s)));
    }
    EXPECT_EQ(fixture.Reserved(), StateBlock::Bytes(kCarry));
  }
  EXPECT_EQ(Read(*stays), Values(kCarry, -1));
  stays.reset();
  fixture.Do([](Backend&) {});  // behind what the last place leaves to do
  EXPECT_EQ(fixture.Reserved(), 0);

  stays = State(4);
  fixture.Place(*stays);
  EXPECT_EQ(Read(*stays), Values(kCarry, 4));
  EXPECT_EQ(fixture.Reserved(), StateBlock::Bytes(kCarry));
}

TEST(StatePoolTest, OneStateCanLeaveAlone) {
  Fixture fixture("cpu:1");
  const auto a = State(1), b = State(2);
  fixture.Place(*a);
  fixture.Place(*b);
  fixture.Do([&](Backend& backend) { fixture.pool->Spill({a}, backend); });
  EXPECT_EQ(a->device(), std::nullopt);
  EXPECT_EQ(b->device(), 0);
  EXPECT_EQ(Read(*a), Values(kCarry, 1));
  EXPECT_EQ(Read(*b), Values(kCarry, 2));
}

TEST(StatePoolTest, AStateThatLeavesStaysAway) {
  Fixture fixture("cpu:1");
  const auto state = State(5);
  state->LeaveDevice();  // it is on none
  fixture.Place(*state);
  state->LeaveDevice();
  state->LeaveDevice();
  EXPECT_EQ(Read(*state), Values(kCarry, 5));
  fixture.Do([](Backend&) {});  // behind what its leaving leaves to do
  EXPECT_EQ(state->device(), std::nullopt);
  EXPECT_EQ(Read(*state), Values(kCarry, 5));
  EXPECT_EQ(fixture.Reserved(), 0);
}

TEST(StatePoolTest, WhoWantsTheMemoryGetsIt) {
  Fixture fixture(Room(4 * StateBlock::Bytes(kCarry)));
  const auto state = State(5);
  fixture.Place(*state);
  EXPECT_EQ(state->device(), 0);
  Ledger& ledger = fixture.devices.device(0).ledger();
  MemoryPlan all;
  all.weights = 4 * StateBlock::Bytes(kCarry);
  const auto held = ledger.Reserve("models/m/versions/1", all);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(state->device(), std::nullopt);
  EXPECT_EQ(Read(*state), Values(kCarry, 5));
  // Without room it stays where it is.
  fixture.Place(*state);
  EXPECT_EQ(state->device(), std::nullopt);
}

// Whoever asks on the device's thread has it at once.
TEST(StatePoolTest, TheDevicesThreadGetsTheMemoryWithoutWaiting) {
  Fixture fixture(Room(4 * StateBlock::Bytes(kCarry)));
  const auto state = State(5);
  fixture.Place(*state);
  fixture.Do([&](Backend&) {
    MemoryPlan all;
    all.weights = 4 * StateBlock::Bytes(kCarry);
    const auto held = fixture.devices.device(0).ledger().TryReserve("m", all);
    EXPECT_TRUE(held.ok()) << held.status();
    EXPECT_EQ(state->device(), std::nullopt);
  });
  EXPECT_EQ(Read(*state), Values(kCarry, 5));
}

// One read waits before the spilling, one behind it.
TEST(StatePoolTest, ReadsAroundASpillSeeTheSame) {
  Fixture fixture(Room(4 * StateBlock::Bytes(kCarry)));
  const auto state = State(5);
  fixture.Place(*state);
  absl::Notification open, done[2];
  absl::StatusOr<Values> read[2];
  const auto begin_read = [&](int i) {
    state->Read([&read, &done, i](absl::StatusOr<Values> values) {
      read[i] = std::move(values);
      done[i].Notify();
    });
  };
  DeviceWorker& device = fixture.devices.device(0);
  device.Enqueue(TaskClass::kServing,
                 [&](Backend&) { open.WaitForNotification(); });
  begin_read(0);
  MemoryPlan all;
  all.weights = 4 * StateBlock::Bytes(kCarry);
  EXPECT_TRUE(absl::IsAborted(device.ledger().TryReserve("m", all).status()));
  EXPECT_EQ(state->device(), 0);  // until the device's thread comes to it
  begin_read(1);
  open.Notify();
  for (const int i : {0, 1}) {
    done[i].WaitForNotification();
    ASSERT_TRUE(read[i].ok()) << read[i].status();
    EXPECT_EQ(*read[i], Values(kCarry, 5));
  }
  EXPECT_EQ(state->device(), std::nullopt);
}

TEST(StatePoolTest, TakesNoMemoryThatModelsMayWantSoon) {
  Fixture fixture(Room(StateBlock::Bytes(kCarry)));
  const auto state = State(5);
  fixture.Place(*state);
  EXPECT_EQ(state->device(), std::nullopt);
  EXPECT_EQ(fixture.Reserved(), 0);
}

TEST(StatePoolTest, StatesOutliveIt) {
  Fixture fixture("cpu:1");
  const auto state = State(7);
  fixture.Place(*state);
  fixture.pool = nullptr;
  EXPECT_EQ(Read(*state), Values(kCarry, 7));
  EXPECT_EQ(fixture.devices.device(0).ledger().Snapshot().used_bytes, 0);
}

}  // namespace
}  // namespace recurve
