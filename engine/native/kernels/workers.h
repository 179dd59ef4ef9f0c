// How kernels share work between threads. A share is a contiguous range of items; what an item computes never
// depends on the share it is in, so bits do not depend on the number of workers.
#pragma once

#include <algorithm>
#include <cstddef>

namespace refrt {

struct Workers {
  size_t count = 1;
  void* pool = nullptr;
  // Calls body(argument, worker) once for every worker in [0, count), returns when all have returned. Null for one.
  void (*run)(void* pool, void (*body)(void* argument, size_t worker), void* argument) = nullptr;
};

// body(worker, begin, end) for each worker's share of [0, items).
template <class Body>
void share(const Workers& workers, size_t items, const Body& body) {
  const size_t count = workers.run == nullptr ? 1 : workers.count;
  if (count <= 1 || items <= 1) {
    if (items > 0) body(size_t{0}, size_t{0}, items);
    return;
  }
  struct Call {
    const Body* body;
    size_t items, count;
  } call{&body, items, count};
  workers.run(
      workers.pool,
      [](void* argument, size_t worker) {
        const Call& c = *static_cast<const Call*>(argument);
        const size_t begin = c.items * worker / c.count;
        const size_t end = c.items * (worker + 1) / c.count;
        if (begin < end) (*c.body)(worker, begin, end);
      },
      &call);
}

}  // namespace refrt
