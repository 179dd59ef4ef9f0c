// One block of memory, 64-byte aligned, never cleared between passes.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace refrt {

struct FreeBlock {
  void operator()(unsigned char* block) const { std::free(block); }
};
using Arena = std::unique_ptr<unsigned char, FreeBlock>;

// At least `bytes` (and at least 64) bytes; throws std::bad_alloc.
inline Arena make_arena(int64_t bytes) {
  const size_t rounded = (static_cast<size_t>(bytes) + 64) / 64 * 64;
  auto* block = static_cast<unsigned char*>(std::aligned_alloc(64, rounded));
  if (block == nullptr) throw std::bad_alloc();
  return Arena(block);
}

}  // namespace refrt
