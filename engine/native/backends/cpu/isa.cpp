#include "backends/cpu/isa.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#if defined(__aarch64__) || defined(__arm__)
#include <sys/auxv.h>
#endif

namespace refrt {
namespace {

#if defined(__ARM_FEATURE_SVE)
// Bits of one vector register (prctl(2) PR_SVE_GET_VL: bytes in the low 16 bits); 0 when it cannot be read.
int sve_bits() {
  constexpr int kGetVectorLength = 51;
  const int value = prctl(kGetVectorLength, 0, 0, 0, 0);
  return value < 0 ? 0 : (value & 0xffff) * 8;
}
#endif

// The first feature this build needs and the processor lacks; null when it has all.
const char* missing_feature() {
#if defined(__x86_64__) && defined(__AVX2__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2")) return "AVX2";
  if (!__builtin_cpu_supports("fma")) return "FMA";
  if (!__builtin_cpu_supports("bmi2")) return "BMI2";
#elif defined(__aarch64__) && defined(__ARM_FEATURE_SVE)
  constexpr unsigned long kAtomics = 1UL << 8, kSve = 1UL << 22;
  const unsigned long features = getauxval(AT_HWCAP);
  if ((features & kSve) == 0) return "SVE";
  if ((features & kAtomics) == 0) return "LSE atomics";
#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS > 0
  if (sve_bits() != __ARM_FEATURE_SVE_BITS) return "SVE of the vector length this was built for";
#endif
#elif defined(__arm__)
  constexpr unsigned long kVfpv3 = 1UL << 13, kVfpv3d16 = 1UL << 14;
  if ((getauxval(AT_HWCAP) & (kVfpv3 | kVfpv3d16)) == 0) return "VFPv3";
#endif
  return nullptr;
}

// Priority 101 is the first a program may use: the operator registry comes after it.
__attribute__((constructor(101))) void check_processor() {
  const char* missing = missing_feature();
  if (missing == nullptr) return;
  const char* parts[] = {"refrt: this processor lacks ", missing, "; deploy the bundle of a lower ABI\n"};
  for (const char* part : parts) {
    if (write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
  }
  _exit(3);
}

}  // namespace

const char* dispatch_name() {
#if defined(__x86_64__)
#if defined(__AVX2__)
  return "avx2";
#else
  return "sse2";
#endif
#elif defined(__aarch64__)
#if defined(__ARM_FEATURE_SVE)
  static char name[16];
  std::snprintf(name, sizeof(name), "sve%d", sve_bits());
  return name;
#else
  return "neon";
#endif
#elif defined(__arm__)
  return "vfpv3";
#elif defined(__riscv) && __riscv_xlen == 64
  return "rv64gc";
#else
  return "generic";
#endif
}

}  // namespace refrt
