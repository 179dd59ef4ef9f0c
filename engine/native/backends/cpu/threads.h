// A small pool for splitting independent outputs. How work is split never shows in the bits: a task owns whole
// outputs, no sum is ever shared.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace refrt {

class ThreadPool {
 public:
  // The calling thread is one of `threads`.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls f(begin, end, worker) over disjoint ranges that cover [0, count); worker < threads(). A range has at least
  // `grain` items unless it is the only one. Returns when all are done. `f` must not throw.
  template <typename F>
  void parallel(int64_t count, int64_t grain, F&& f) {
    if (count <= 0) return;
    const int64_t most = std::max<int64_t>(1, count / std::max<int64_t>(1, grain));
    const int64_t parts = std::min<int64_t>(threads(), most);
    if (parts == 1) {
      f(int64_t{0}, count, 0);
      return;
    }
    struct Task {
      F& f;
      int64_t count, parts;
    } task{f, count, parts};
    start(
        [](void* opaque, int worker) {
          const Task& t = *static_cast<Task*>(opaque);
          if (worker >= t.parts) return;
          t.f(t.count * worker / t.parts, t.count * (worker + 1) / t.parts, worker);
        },
        &task);
  }

 private:
  using Call = void (*)(void*, int);
  void start(Call call, void* task);
  void work(int worker);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  Call call_ = nullptr;
  void* task_ = nullptr;
  uint64_t round_ = 0;
  int running_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace refrt
