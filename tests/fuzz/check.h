// Ends the program, in every build, where a promise of a parser is broken.
#ifndef RECURVE_TESTS_FUZZ_CHECK_H_
#define RECURVE_TESTS_FUZZ_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define FUZZ_CHECK(condition)                                              \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                        \
    }                                                                      \
  } while (false)

#endif  // RECURVE_TESTS_FUZZ_CHECK_H_
