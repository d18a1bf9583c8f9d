// Settings of the whole process, which its libraries would choose otherwise.
// Each is for a server; tests do without.
#ifndef RECURVE_SERVER_PROCESS_H_
#define RECURVE_SERVER_PROCESS_H_

#include <cstdint>

namespace recurve::server {

// First of all in main, before any thread: may start the program once more.
void PrepareProcess(char** argv);

// Gives memory that is allocated no more back to the system where it is at
// least `min_free_bytes`: after a burst glibc keeps in its arenas what lies
// below their top, for good. Bytes that were free. Thread-safe; takes some
// milliseconds for each GB that was free, in which other threads may wait.
int64_t ReturnFreeMemory(int64_t min_free_bytes);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_PROCESS_H_
