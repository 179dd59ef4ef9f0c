#include "profiler/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace refrt {
namespace {

constexpr size_t kBlockBytes = 16 * 1024;

// The bits of one floating type: `kInfinity` is the exponent mask, `kQuietNan` the canonical NaN.
template <typename Word, Word kInfinityBits, Word kQuietNanBits>
struct FloatBits {
  using Bits = Word;
  static constexpr Word kInfinity = kInfinityBits;
  static constexpr Word kQuietNan = kQuietNanBits;
  static constexpr Word kMagnitude = static_cast<Word>(~(Word{1} << (8 * sizeof(Word) - 1)));
};
using Half = FloatBits<uint16_t, 0x7c00, 0x7e00>;
using Brain = FloatBits<uint16_t, 0x7f80, 0x7fc0>;
using Single = FloatBits<uint32_t, 0x7f800000u, 0x7fc00000u>;
using Double = FloatBits<uint64_t, 0x7ff0000000000000u, 0x7ff8000000000000u>;

template <typename F>
bool any_nonfinite(const typename F::Bits* words, size_t count) {
  using Bits = typename F::Bits;
  Bits found = 0;
  for (size_t i = 0; i < count; ++i) found |= static_cast<Bits>((words[i] & F::kMagnitude) >= F::kInfinity);
  return found != 0;
}

template <typename F>
void count_nonfinite(const typename F::Bits* words, size_t count, NonFinite& into) {
  for (size_t i = 0; i < count; ++i) {
    const auto magnitude = static_cast<typename F::Bits>(words[i] & F::kMagnitude);
    if (magnitude > F::kInfinity) {
      ++into.nan;
    } else if (magnitude == F::kInfinity) {
      ++(words[i] == F::kInfinity ? into.pos_inf : into.neg_inf);
    }
  }
}

template <typename F>
void canonicalise(const typename F::Bits* words, size_t count, typename F::Bits* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<typename F::Bits>(words[i] & F::kMagnitude) > F::kInfinity ? F::kQuietNan : words[i];
  }
}

template <typename F>
void hash_floats(const Tensor& tensor, XXH3_state_t* state, NonFinite& nonfinite) {
  using Bits = typename F::Bits;
  constexpr size_t kBlock = kBlockBytes / sizeof(Bits);
  const auto* words = static_cast<const Bits*>(tensor.data);
  const auto count = static_cast<size_t>(tensor.count());
  alignas(64) Bits clean[kBlock];
  for (size_t at = 0; at < count; at += kBlock) {
    const size_t size = std::min(kBlock, count - at);
    const Bits* block = words + at;
    if (any_nonfinite<F>(block, size)) {
      count_nonfinite<F>(block, size, nonfinite);
      canonicalise<F>(block, size, clean);
      block = clean;
    }
    XXH3_128bits_update(state, block, size * sizeof(Bits));
  }
}

template <typename F>
std::string_view clean_copy(const Tensor& tensor, std::vector<unsigned char>& storage) {
  using Bits = typename F::Bits;
  const auto bytes = static_cast<size_t>(tensor.bytes());
  const auto* words = static_cast<const Bits*>(tensor.data);
  const auto count = static_cast<size_t>(tensor.count());
  if (!any_nonfinite<F>(words, count)) return {static_cast<const char*>(tensor.data), bytes};
  storage.resize(bytes);
  canonicalise<F>(words, count, reinterpret_cast<Bits*>(storage.data()));
  return {reinterpret_cast<const char*>(storage.data()), bytes};
}

void write_hex(XXH128_hash_t hash, std::array<char, 32>& hex) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (size_t i = 0; i < 16; ++i) {
    hex[i] = kDigits[hash.high64 >> (60 - 4 * i) & 15];
    hex[16 + i] = kDigits[hash.low64 >> (60 - 4 * i) & 15];
  }
}

}  // namespace

Observation observe(const Tensor& tensor) {
  Observation seen;
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  switch (tensor.dtype) {
    case DType::float32:
      hash_floats<Single>(tensor, &state, seen.nonfinite);
      break;
    case DType::float64:
      hash_floats<Double>(tensor, &state, seen.nonfinite);
      break;
    case DType::float16:
      hash_floats<Half>(tensor, &state, seen.nonfinite);
      break;
    case DType::bfloat16:
      hash_floats<Brain>(tensor, &state, seen.nonfinite);
      break;
    default:
      if (tensor.bytes() > 0) XXH3_128bits_update(&state, tensor.data, static_cast<size_t>(tensor.bytes()));
  }
  write_hex(XXH3_128bits_digest(&state), seen.hex);
  return seen;
}

std::string_view canonical_bytes(const Tensor& tensor, std::vector<unsigned char>& storage) {
  switch (tensor.dtype) {
    case DType::float32:
      return clean_copy<Single>(tensor, storage);
    case DType::float64:
      return clean_copy<Double>(tensor, storage);
    case DType::float16:
      return clean_copy<Half>(tensor, storage);
    case DType::bfloat16:
      return clean_copy<Brain>(tensor, storage);
    default:
      return {static_cast<const char*>(tensor.data), static_cast<size_t>(tensor.bytes())};
  }
}

}  // namespace refrt
