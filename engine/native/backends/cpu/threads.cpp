#include "backends/cpu/threads.h"

namespace refrt {

ThreadPool::ThreadPool(int threads) {
  for (int worker = 1; worker < threads; ++worker) workers_.emplace_back([this, worker] { work(worker); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::start(Call call, void* task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    call_ = call;
    task_ = task;
    running_ = static_cast<int>(workers_.size());
    ++round_;
  }
  wake_.notify_all();
  call(task, 0);
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
}

void ThreadPool::work(int worker) {
  uint64_t seen = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    const Call call = call_;
    void* const task = task_;
    lock.unlock();
    call(task, worker);
    lock.lock();
    if (--running_ == 0) done_.notify_one();
  }
}

}  // namespace refrt
