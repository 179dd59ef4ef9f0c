// One pass over two tensors: every sum, count and extreme that the metrics need.
//
// The order of additions is that of consistency/metrics/accumulate.py: element i goes to lane i mod 8 of block
// i div 4096, a block adds its rows one after another, blocks follow each other, lanes are folded in halves by the
// caller. Each step is one IEEE addition of doubles without contraction, so this gives the same bits as the numpy form
// on every machine. Elements that are not finite on both sides count as pairs of zeros in every sum.
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { kLanes = 8, kBlock = 4096, kSums = 6 };

typedef double d8 __attribute__((ext_vector_type(8)));
typedef int64_t l8 __attribute__((ext_vector_type(8)));

// The layout is consistency/metrics/kernel.py's: change both.
struct Measured {
  double sums[kSums][kLanes];  // difference, its square, ref's square, got's square, product, distance
  int64_t count, differing, over_bound, mismatch;
  int64_t got_nan, got_pos, got_neg, ref_nan, ref_pos, ref_neg;
  int64_t worst_index;  // the first element of the largest distance, -1 if there is no distance
  double worst, worst_got, worst_ref;
  double ref_low, ref_high;  // finite extremes; low > high when there is no finite element
  int64_t flushed;           // pairs of a subnormal number and zero, whichever is which
  int64_t got_constant;      // 1 while every element of got equals its first
  uint32_t* large;           // float32: bits of ref's finite magnitudes from threshold up, at most room of them
  int64_t room, picked;
  uint32_t threshold;
};

static inline d8 absolute(d8 value) { return (d8)((l8)value & INT64_MAX); }
static inline d8 larger(d8 a, d8 b) { return a > b ? a : b; }
static inline d8 smaller(d8 a, d8 b) { return a < b ? a : b; }

static void note_kind(double value, int64_t* nan, int64_t* pos, int64_t* neg) {
  if (isnan(value))
    ++*nan;
  else if (isinf(value))
    ++*(value > 0 ? pos : neg);
}

static int kind(double value) { return isnan(value) ? 1 : !isinf(value) ? 0 : value > 0 ? 2 : 3; }

// What a block adds: five sums and the sum of distances, from zero, row by row.
struct Block {
  d8 sums[kSums];
  d8 worst, low, high, over;
  int lone_zero;  // some pair has exactly one zero
};

static void add_row(struct Block* block, d8 got, d8 ref, d8 bound) {
  const d8 difference = got - ref, distance = absolute(difference);
  block->sums[0] += difference;
  block->sums[1] += difference * difference;
  block->sums[2] += ref * ref;
  block->sums[3] += got * got;
  block->sums[4] += got * ref;
  block->sums[5] += distance;
  block->worst = larger(distance, block->worst);
  block->over -= (d8){0} + __builtin_convertvector(distance > bound, d8);
}

static struct Block new_block(void) {
  struct Block block;
  memset(&block, 0, sizeof(block));
  block.low = (d8){0} + HUGE_VAL;
  block.high = (d8){0} - HUGE_VAL;
  return block;
}

static double top_of(d8 values) {
  double top = values[0];
  for (int lane = 1; lane < kLanes; ++lane) top = values[lane] > top ? values[lane] : top;
  return top;
}

static void end_block(struct Measured* all, const struct Block* block) {
  for (int sum = 0; sum < kSums; ++sum)
    for (int lane = 0; lane < kLanes; ++lane) all->sums[sum][lane] += block->sums[sum][lane];
  for (int lane = 0; lane < kLanes; ++lane) {
    all->over_bound += (int64_t)block->over[lane];
    if (block->low[lane] < all->ref_low) all->ref_low = block->low[lane];
    if (block->high[lane] > all->ref_high) all->ref_high = block->high[lane];
  }
}

static void pick_one(uint32_t bits, struct Measured* all) {
  if (bits < all->threshold || bits >= 0x7f800000) return;
  if (all->picked < all->room) all->large[all->picked] = bits;
  ++all->picked;
}

// The magnitudes from a threshold up (float32, as bits): the percentile is one of them. Counts those without room too.
static void pick_large(const void* values, int64_t size, struct Measured* all) {
  typedef uint32_t u8 __attribute__((ext_vector_type(8)));
  const uint32_t* bits = values;
  const u8 least = (u8){0} + all->threshold;
  for (int64_t index = 0; index + 16 <= size; index += 16) {
    u8 low, high;
    memcpy(&low, bits + index, sizeof(low));
    memcpy(&high, bits + index + 8, sizeof(high));
    low &= INT32_MAX, high &= INT32_MAX;
    if (!__builtin_reduce_or((u8)(low >= least) | (u8)(high >= least))) continue;
    for (int lane = 0; lane < 16; ++lane) pick_one(bits[index + lane] & INT32_MAX, all);
  }
  for (int64_t index = size - size % 16; index < size; ++index) pick_one(bits[index] & INT32_MAX, all);
}

// One element type: T as stored, U the unsigned integer of its size.
#define MEASURE(NAME, T, U, FLOATING)                                                                              \
  typedef T NAME##_t8 __attribute__((ext_vector_type(8)));                                                         \
  typedef U NAME##_u8 __attribute__((ext_vector_type(8)));                                                         \
                                                                                                                   \
  static void NAME##_odd_rows(const T* got, const T* ref, int64_t size, d8 bound, struct Block* block,             \
                              struct Measured* all) {                                                              \
    for (int64_t start = 0; start < size; start += kLanes) {                                                       \
      d8 g = {0}, r = {0}, low = (d8){0} + HUGE_VAL, high = (d8){0} - HUGE_VAL;                                    \
      for (int64_t lane = 0; lane < kLanes && start + lane < size; ++lane) {                                       \
        const double one = (double)got[start + lane], other = (double)ref[start + lane];                           \
        note_kind(one, &all->got_nan, &all->got_pos, &all->got_neg);                                               \
        note_kind(other, &all->ref_nan, &all->ref_pos, &all->ref_neg);                                             \
        if (kind(one) != kind(other)) ++all->mismatch, ++all->over_bound;                                          \
        all->differing += memcmp(got + start + lane, ref + start + lane, sizeof(T)) != 0;                          \
        if (kind(other) == 0) low[lane] = high[lane] = other;                                                      \
        if (kind(one) == 0 && kind(other) == 0) g[lane] = one, r[lane] = other;                                    \
      }                                                                                                            \
      add_row(block, g, r, bound);                                                                                 \
      block->low = smaller(low, block->low);                                                                       \
      block->high = larger(high, block->high);                                                                     \
    }                                                                                                              \
  }                                                                                                                \
                                                                                                                   \
  static int64_t NAME##_rows(const T* got, const T* ref, int64_t rows, d8 bound, struct Block* block) {            \
    struct Block sums = *block;                                                                                    \
    NAME##_u8 differing = {0}, odd = {0}, lone = {0};                                                              \
    int64_t total = 0;                                                                                             \
    for (int64_t row = 0; row < rows; ++row) {                                                                     \
      NAME##_t8 g, r;                                                                                              \
      NAME##_u8 g_bits, r_bits;                                                                                    \
      memcpy(&g, got + row * kLanes, sizeof(g));                                                                   \
      memcpy(&r, ref + row * kLanes, sizeof(r));                                                                   \
      memcpy(&g_bits, &g, sizeof(g));                                                                              \
      memcpy(&r_bits, &r, sizeof(r));                                                                              \
      differing -= (NAME##_u8)(g_bits != r_bits);                                                                  \
      if (FLOATING) {                                                                                              \
        const NAME##_t8 nothing = (g - g) + (r - r);                                                               \
        odd |= (NAME##_u8)(nothing != nothing);                                                                    \
        lone |= (NAME##_u8)(g == 0) ^ (NAME##_u8)(r == 0);                                                         \
      }                                                                                                            \
      const d8 wide = __builtin_convertvector(r, d8);                                                              \
      add_row(&sums, __builtin_convertvector(g, d8), wide, bound);                                                 \
      sums.low = smaller(wide, sums.low);                                                                          \
      sums.high = larger(wide, sums.high);                                                                         \
      if (sizeof(T) == 1 && row % 128 == 127) { /* before a count of 255 is full */                                \
        for (int lane = 0; lane < kLanes; ++lane) total += differing[lane];                                        \
        differing = (NAME##_u8){0};                                                                                \
      }                                                                                                            \
    }                                                                                                              \
    for (int lane = 0; lane < kLanes; ++lane) {                                                                    \
      total += differing[lane];                                                                                    \
      if (odd[lane]) return -1;                                                                                    \
    }                                                                                                              \
    sums.lone_zero |= __builtin_reduce_or(lone) != 0;                                                              \
    *block = sums;                                                                                                 \
    return total;                                                                                                  \
  }                                                                                                                \
                                                                                                                   \
  static void NAME##_note_worst(const T* got, const T* ref, int64_t size, double top, struct Measured* all) {      \
    for (int64_t index = 0; index < size; ++index) {                                                               \
      const double one = (double)got[index], other = (double)ref[index];                                           \
      if (fabs(one - other) == top && kind(one) == 0 && kind(other) == 0) {                                        \
        all->worst = top, all->worst_index = all->count + index, all->worst_got = one, all->worst_ref = other;     \
        return;                                                                                                    \
      }                                                                                                            \
    }                                                                                                              \
  }                                                                                                                \
                                                                                                                   \
  static void NAME##_note_constant(const T* got, T value, int64_t size, struct Measured* all) {                    \
    const NAME##_t8 first = (NAME##_t8){0} + value;                                                                \
    NAME##_u8 unlike = {0};                                                                                        \
    int64_t index = 0;                                                                                             \
    for (; index + kLanes <= size && all->got_constant; index += kLanes) {                                         \
      NAME##_t8 here;                                                                                              \
      memcpy(&here, got + index, sizeof(here));                                                                    \
      unlike |= (NAME##_u8)(here != first);                                                                        \
      if (index % 512 == 0 && __builtin_reduce_or(unlike)) all->got_constant = 0;                                  \
    }                                                                                                              \
    for (; index < size; ++index) all->got_constant &= got[index] == value;                                        \
    all->got_constant &= __builtin_reduce_or(unlike) == 0;                                                         \
  }                                                                                                                \
                                                                                                                   \
  static void NAME##_note_flushed(const T* got, const T* ref, int64_t size, struct Measured* all) {                \
    const double least = sizeof(T) == 4 ? 0x1p-126 : 0x1p-1022;                                                    \
    for (int64_t index = 0; index < size; ++index) {                                                               \
      const double one = fabs((double)got[index]), other = fabs((double)ref[index]);                               \
      all->flushed += (one == 0) != (other == 0) && one < least && other < least;                                  \
    }                                                                                                              \
  }                                                                                                                \
                                                                                                                   \
  /* Adds size elements; a call that is not the last one takes a multiple of kBlock. first: got's first element */ \
  void lockstep_measure_##NAME(const T* got, const T* ref, const T* first, int64_t size, double limit,             \
                               struct Measured* all) {                                                             \
    const d8 bound = (d8){0} + limit;                                                                              \
    for (int64_t start = 0; start < size; start += kBlock) {                                                       \
      const int64_t here = size - start < kBlock ? size - start : kBlock;                                          \
      const T *one = got + start, *other = ref + start;                                                            \
      struct Block block = new_block();                                                                            \
      const int64_t rows = here / kLanes, whole = rows * kLanes;                                                   \
      const int64_t differing = NAME##_rows(one, other, rows, bound, &block);                                      \
      if (differing >= 0) all->differing += differing;                                                             \
      const int64_t done = differing >= 0 ? whole : 0;                                                             \
      NAME##_odd_rows(one + done, other + done, here - done, bound, &block, all);                                  \
      if (FLOATING && (block.lone_zero || done < here)) NAME##_note_flushed(one, other, here, all);                \
      if (FLOATING && sizeof(T) == 4) pick_large(other, here, all);                                                \
      const double top = top_of(block.worst);                                                                      \
      if (top > all->worst) NAME##_note_worst(one, other, here, top, all);                                         \
      if (all->got_constant) NAME##_note_constant(one, *first, here, all);                                         \
      end_block(all, &block);                                                                                      \
      all->count += here;                                                                                          \
    }                                                                                                              \
  }

MEASURE(float32, float, uint32_t, 1)
MEASURE(float64, double, uint64_t, 1)
MEASURE(int8, int8_t, uint8_t, 0)
MEASURE(uint8, uint8_t, uint8_t, 0)
MEASURE(int16, int16_t, uint16_t, 0)
MEASURE(uint16, uint16_t, uint16_t, 0)
MEASURE(int32, int32_t, uint32_t, 0)
MEASURE(uint32, uint32_t, uint32_t, 0)
