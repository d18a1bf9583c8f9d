// Memory of one device that somebody holds for a while and lends to others.
#ifndef RECURVE_ENGINE_SCHEDULE_HELD_MEMORY_H_
#define RECURVE_ENGINE_SCHEDULE_HELD_MEMORY_H_

#include "engine/schedule/ledger.h"

namespace recurve {

struct HeldMemory {
  int device = 0;  // of the pool
  Ledger::Reservation reservation;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_HELD_MEMORY_H_
