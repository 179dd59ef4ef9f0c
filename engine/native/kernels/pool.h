// The session's thread pool as the kernels' workers.
#pragma once

#include "backends/cpu/threads.h"
#include "workers.h"

namespace refrt {

inline Workers workers_of(ThreadPool& pool) {
  Workers workers;
  workers.count = static_cast<size_t>(pool.threads());
  workers.pool = &pool;
  workers.run = [](void* opaque, void (*body)(void*, size_t), void* argument) {
    ThreadPool& threads = *static_cast<ThreadPool*>(opaque);
    threads.parallel(threads.threads(), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) body(argument, static_cast<size_t>(i));
    });
  };
  return workers;
}

}  // namespace refrt
