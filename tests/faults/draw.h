// Numbers drawn by one thread.
#ifndef RECURVE_TESTS_FAULTS_DRAW_H_
#define RECURVE_TESTS_FAULTS_DRAW_H_

#include <cstdint>
#include <random>

namespace recurve::faults {

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  // Both may come.
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % (high - low + 1));
  }
  bool OneIn(int64_t n) { return Between(1, n) == 1; }

 private:
  std::mt19937_64 random_;
};

}  // namespace recurve::faults

#endif  // RECURVE_TESTS_FAULTS_DRAW_H_
