#include "kernels/cuda/emulation/block.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/emulation/fibre.h"
#include "kernels/cuda/emulation/guarded_memory.h"
#include "kernels/cuda/emulation/order.h"

namespace recurve::cuda::emulation {
namespace {

constexpr int kWarp = 32;
constexpr size_t kMaxSharedBytes = 48 << 10;  // without opting in to more

enum class State { kNotStarted, kReady, kAtBarrier, kInWarp, kReturned };

struct Thread {
  State state = State::kNotStarted;
  uint3 index;
  Fibre* fibre = nullptr;
  Place place;  // where it waits
  // Its part in a warp operation, and what came of it.
  WarpOperation operation;
  unsigned mask;
  uint64_t value;
  int source;
  uint64_t result;
};

// A shared array's memory, kept from grid to grid.
struct SharedSlot {
  std::unique_ptr<GuardedMemory> memory;
  bool used = false;  // in the present block
};

std::map<const void*, SharedSlot>& SharedSlots() {
  static auto* slots = new std::map<const void*, SharedSlot>;
  return *slots;
}

// A running grid; there is one at a time.
class Grid {
 public:
  Grid(const char* kernel, dim3 block, const std::function<void()>& body)
      : kernel_(kernel), order_(DrawGridOrder()), body_(body) {
    threads_.resize(static_cast<size_t>(block.x) * block.y * block.z);
    int i = 0;
    for (unsigned z = 0; z < block.z; ++z) {
      for (unsigned y = 0; y < block.y; ++y) {
        for (unsigned x = 0; x < block.x; ++x) {
          threads_[i++].index = {x, y, z};
        }
      }
    }
  }

  ThreadOrder order() const { return order_; }
  void RunBlock();
  int Barrier(bool predicate, Place place);
  uint64_t Warp(WarpOperation operation, unsigned mask, uint64_t value,
                int source, Place place);
  int lane() const { return running_ % kWarp; }
  void* Shared(const void* key, size_t bytes);
  std::string Where() const;

  // The life of a fibre: run threads that have not started, one after the
  // other, until a thread that waits somewhere else can go on.
  [[noreturn]] void RunThreads();

 private:
  void Suspend();
  void EndShared();
  int NextReady();
  void ReleaseBarrier();
  void CheckWarpPart(int thread, int lane) const;
  void FinishWarpOperation(int thread);
  [[noreturn]] void Stuck() const;
  std::string NameOf(int thread) const;
  std::string Waits(int thread) const;

  const char* kernel_;
  const ThreadOrder order_;
  // Whether a warp goes on after a warp operation before other warps have their
  // turn, as far as the next barrier: what it overwrites too early then shows.
  const bool warps_run_ahead_ = order_ != ThreadOrder::kRandom || Draw(2) == 0;
  const std::function<void()>& body_;
  std::vector<Thread> threads_;
  std::vector<int> queue_;  // threads that can go on, from next_ on
  size_t next_ = 0;
  int running_ = -1;
  int returned_ = 0;
  int at_barrier_ = 0;
  int first_at_barrier_ = 0;
  int predicates_ = 0;
  int barrier_result_ = 0;
  Fibre caller_;
  size_t shared_bytes_ = 0;
};

Grid* grid_running = nullptr;

// Fibres that wait for a thread to run. They outlive grids.
std::vector<Fibre*>& IdleFibres() {
  static auto* fibres = new std::vector<Fibre*>;
  return *fibres;
}

Fibre* TakeFibre() {
  std::vector<Fibre*>& idle = IdleFibres();
  if (idle.empty()) return new Fibre([] { grid_running->RunThreads(); });
  Fibre* fibre = idle.back();
  idle.pop_back();
  return fibre;
}

void Grid::RunBlock() {
  returned_ = at_barrier_ = predicates_ = 0;
  next_ = 0;
  queue_.resize(threads_.size());
  for (size_t i = 0; i < threads_.size(); ++i) {
    threads_[i].state = State::kNotStarted;
    queue_[i] = static_cast<int>(i);
  }
  Arrange(order_, queue_);
  running_ = NextReady();
  threads_[running_].fibre = TakeFibre();
  caller_.SwitchTo(*threads_[running_].fibre);
  running_ = -1;
  EndShared();
}

// The block is done with its shared arrays.
void Grid::EndShared() {
  if (shared_bytes_ == 0) return;
  for (auto& [key, slot] : SharedSlots()) {
    if (slot.used && !slot.memory->GuardsAreIntact()) {
      Fault("kernel %s wrote outside a shared array of %zu bytes", kernel_,
            slot.memory->size());
    }
    slot.used = false;
  }
  shared_bytes_ = 0;
}

void Grid::RunThreads() {
  for (;;) {
    // A later grid may be the one that runs when this fibre is taken again.
    Grid& grid = *grid_running;
    Thread& thread = grid.threads_[grid.running_];
    Fibre* const own = thread.fibre;
    thread.state = State::kReady;
    threadIdx = thread.index;
    grid.body_();
    thread.state = State::kReturned;
    ++grid.returned_;
    int next = grid.NextReady();
    if (next >= 0 && grid.threads_[next].state == State::kNotStarted) {
      grid.running_ = next;
      grid.threads_[next].fibre = own;
      continue;
    }
    if (next < 0 && grid.returned_ != static_cast<int>(grid.threads_.size())) {
      grid.Stuck();
    }
    IdleFibres().push_back(own);
    grid.running_ = next;
    own->SwitchTo(next < 0 ? grid.caller_ : *grid.threads_[next].fibre);
  }
}

int Grid::NextReady() {
  if (next_ < queue_.size()) return queue_[next_++];
  queue_.clear();
  next_ = 0;
  return -1;
}

// Lets others run until the running thread is made ready again.
void Grid::Suspend() {
  const int self = running_;
  int next = NextReady();
  if (next < 0) Stuck();
  if (next != self) {
    Thread& other = threads_[next];
    if (other.state == State::kNotStarted) other.fibre = TakeFibre();
    running_ = next;
    threads_[self].fibre->SwitchTo(*other.fibre);
  }
  running_ = self;
  threadIdx = threads_[self].index;
}

int Grid::Barrier(bool predicate, Place place) {
  Thread& self = threads_[running_];
  self.place = place;
  self.state = State::kAtBarrier;
  // All that wait agree: the first of them speaks for all.
  if (at_barrier_ == 0) first_at_barrier_ = running_;
  if (!(threads_[first_at_barrier_].place == place)) {
    Fault("divergent barrier: %s; %s", Waits(first_at_barrier_).c_str(),
          Waits(running_).c_str());
  }
  predicates_ += predicate;
  if (++at_barrier_ == static_cast<int>(threads_.size())) ReleaseBarrier();
  Suspend();
  return barrier_result_;
}

void Grid::ReleaseBarrier() {
  barrier_result_ = predicates_;
  at_barrier_ = predicates_ = 0;
  next_ = 0;
  queue_.resize(threads_.size());
  for (size_t i = 0; i < threads_.size(); ++i) {
    threads_[i].state = State::kReady;
    queue_[i] = static_cast<int>(i);
  }
  Arrange(order_, queue_);
}

uint64_t Grid::Warp(WarpOperation operation, unsigned mask, uint64_t value,
                    int source, Place place) {
  const int self = running_;
  Thread& thread = threads_[self];
  thread.state = State::kInWarp;
  thread.place = place;
  thread.operation = operation;
  thread.mask = mask;
  thread.value = value;
  thread.source = source;
  if ((mask >> lane() & 1) == 0) {
    Fault("%s is not in its own mask 0x%08x", Waits(self).c_str(), mask);
  }
  bool complete = true;
  for (int l = 0; l < kWarp; ++l) {
    if ((mask >> l & 1) == 0) continue;
    const int other = self - lane() + l;
    CheckWarpPart(self, l);
    complete &= threads_[other].state == State::kInWarp;
  }
  if (complete) {
    FinishWarpOperation(self);
  } else {
    Suspend();
  }
  return thread.result;
}

void Grid::CheckWarpPart(int thread, int lane) const {
  const Thread& self = threads_[thread];
  const int other = thread - thread % kWarp + lane;
  if (other >= static_cast<int>(threads_.size())) {
    Fault("%s: mask 0x%08x names lane %d, which is not in the block",
          Waits(thread).c_str(), self.mask, lane);
  }
  const Thread& part = threads_[other];
  if (part.state == State::kReturned) {
    Fault("%s: mask 0x%08x names lane %d, which has returned",
          Waits(thread).c_str(), self.mask, lane);
  }
  if (part.state != State::kInWarp) return;
  if (part.mask != self.mask || part.operation != self.operation ||
      !(part.place == self.place)) {
    Fault("lanes disagree: %s with mask 0x%08x; %s with mask 0x%08x",
          Waits(thread).c_str(), self.mask, Waits(other).c_str(), part.mask);
  }
}

// All lanes of the thread's mask wait: gives each its result and lets it go on.
void Grid::FinishWarpOperation(int thread) {
  const Thread& self = threads_[thread];
  Thread* warp = &threads_[thread - thread % kWarp];
  uint64_t votes = 0;
  for (int l = 0; l < kWarp; ++l) {
    if (self.mask >> l & 1) votes |= uint64_t{warp[l].value != 0} << l;
  }
  int released[kWarp];
  int count = 0;
  for (int l = 0; l < kWarp; ++l) {
    if ((self.mask >> l & 1) == 0) continue;
    Thread& lane = warp[l];
    bool named = lane.source >= 0 && (self.mask >> lane.source & 1);
    lane.result = self.operation != WarpOperation::kShuffle ? votes
                  : named ? warp[lane.source].value
                          : ~uint64_t{0};
    lane.state = State::kReady;
    if (&lane != &self) released[count++] = thread - thread % kWarp + l;
  }
  Arrange(order_, {released, static_cast<size_t>(count)});
  queue_.insert(warps_run_ahead_ ? queue_.begin() + next_ : queue_.end(),
                released, released + count);
}

void* Grid::Shared(const void* key, size_t bytes) {
  SharedSlot& slot = SharedSlots()[key];
  if (slot.memory == nullptr) {
    slot.memory = std::make_unique<GuardedMemory>(bytes, 16);
  }
  if (!slot.used) {
    slot.used = true;
    slot.memory->Fill();
    shared_bytes_ += bytes;
    if (shared_bytes_ > kMaxSharedBytes) {
      Fault("kernel %s wants %zu bytes of shared memory; a block has %zu",
            kernel_, shared_bytes_, kMaxSharedBytes);
    }
  }
  return slot.memory->data();
}

std::string Grid::NameOf(int thread) const {
  const uint3 index = threads_[thread].index;
  return "thread (" + std::to_string(index.x) + ", " + std::to_string(index.y) +
         ", " + std::to_string(index.z) + ")";
}

std::string Grid::Waits(int thread) const {
  const Thread& t = threads_[thread];
  if (t.state == State::kReturned) return NameOf(thread) + " has returned";
  return NameOf(thread) + " at " + t.place.file + ":" +
         std::to_string(t.place.line);
}

// Nobody can go on: says of one thread of each kind where it is.
void Grid::Stuck() const {
  std::string text;
  int last_line = -1;
  for (size_t i = 0; i < threads_.size(); ++i) {
    int line =
        threads_[i].state == State::kReturned ? 0 : threads_[i].place.line;
    if (line != last_line) text += "; " + Waits(static_cast<int>(i));
    last_line = line;
  }
  Fault("threads wait for ever%s", text.substr(0, 1000).c_str());
}

std::string Grid::Where() const {
  std::string text = std::string("kernel ") + kernel_ + ", block (" +
                     std::to_string(blockIdx.x) + ", " +
                     std::to_string(blockIdx.y) + ", " +
                     std::to_string(blockIdx.z) + ")";
  if (running_ >= 0) text += ", " + NameOf(running_);
  return text + ", " + Describe(order_);
}

}  // namespace

void RunGrid(const char* kernel, dim3 grid, dim3 block,
             const std::function<void()>& body) {
  Grid running(kernel, block, body);
  grid_running = &running;
  gridDim = grid;
  blockDim = block;
  std::vector<int> blocks(static_cast<size_t>(grid.x) * grid.y * grid.z);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int>(i);
  Arrange(running.order(), blocks);
  for (int b : blocks) {
    unsigned number = static_cast<unsigned>(b);
    blockIdx = {number % grid.x, number / grid.x % grid.y,
                number / grid.x / grid.y};
    running.RunBlock();
  }
  grid_running = nullptr;
}

const char* RunningGrid() {
  static std::string text;
  if (grid_running == nullptr) return "";
  text = grid_running->Where() + "\n";
  return text.c_str();
}

int BlockBarrier(bool predicate, Place place) {
  return grid_running->Barrier(predicate, place);
}

uint64_t WarpExchange(WarpOperation operation, unsigned mask, uint64_t value,
                      int source, Place place) {
  return grid_running->Warp(operation, mask, value, source, place);
}

int LaneId() { return grid_running->lane(); }

void* SharedArray(const void* key, size_t bytes) {
  return grid_running->Shared(key, bytes);
}

void Fault(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::fputs("CUDA emulation: ", stderr);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "\n%s", RunningGrid());
  std::abort();
}

}  // namespace recurve::cuda::emulation
