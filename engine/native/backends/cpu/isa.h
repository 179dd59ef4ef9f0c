// The instruction set this program was compiled for, and whether this processor has it.
#pragma once

namespace refrt {

// What results name as `dispatch`: sse2, avx2, neon, sveN (N vector bits), vfpv3, rv64gc or generic.
const char* dispatch_name();

// isa.cpp checks the processor before any other static constructor runs and leaves with exit code 3, naming the
// missing feature, where an unchecked program would die of SIGILL.

}  // namespace refrt
