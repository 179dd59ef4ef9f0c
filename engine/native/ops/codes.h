// What operators on 8-bit codes share. A code stands for (code - zero point) * scale; `Step` is code - zero point.
#pragma once

#include <cmath>
#include <string>

#include "kernels/steps.h"
#include "ops/op.h"

namespace refrt {

// Input `index`, whose type must be uint8 or int8.
inline const Tensor& code_input(const PrepareContext& context, size_t index) {
  context.require(context.has_input(index), "an input is missing");
  const DType type = context.inputs[index]->dtype;
  if (type != DType::uint8 && type != DType::int8) {
    context.unsupported(std::string("codes of type ") + dtype_name(type) + "; known: uint8, int8");
  }
  return *context.inputs[index];
}

inline int32_t code_at(const Tensor& codes, size_t index) {
  if (codes.dtype == DType::uint8) return static_cast<const uint8_t*>(codes.data)[index];
  return static_cast<const int8_t*>(codes.data)[index];
}

// body(codes as their own type), so that a loop over them asks for the type once.
template <class Body>
void with_codes(const Tensor& codes, const Body& body) {
  if (codes.dtype == DType::uint8) {
    body(static_cast<const uint8_t*>(codes.data));
  } else {
    body(static_cast<const int8_t*>(codes.data));
  }
}

// A scale or a zero point: one for all, or one for each row, column or channel ("line").
struct PerLine {
  size_t stride = 0;

  // Checks the shape of input `index` (null: an absent zero point, which is 0).
  static PerLine of_rows(const PrepareContext& context, const Tensor* values, int64_t lines) {
    return read(context, values, lines, true);
  }
  static PerLine of_columns(const PrepareContext& context, const Tensor* values, int64_t lines) {
    return read(context, values, lines, false);
  }

  int32_t zero(const Tensor* values, size_t line) const {
    return values == nullptr ? 0 : code_at(*values, line * stride);
  }
  float scale(const Tensor* values, size_t line) const { return values->f32()[line * stride]; }

 private:
  // A vector, or a matrix of one column (rows) or of one row (columns); one for each matrix of a batch is not known.
  static PerLine read(const PrepareContext& context, const Tensor* values, int64_t lines, bool rows) {
    if (values == nullptr || values->count() == 1) return {};
    const int axis = values->rank - (rows && values->rank > 1 ? 2 : 1);
    if (values->count() != lines || values->rank < 1 || values->dims[axis] != lines) {
      context.unsupported("scales or zero points of shape " + shape_text(*values) + "; known: one, or one a line");
    }
    return {1};
  }
};

// An optional zero point, of the type of its codes; null when absent.
inline const Tensor* zero_input(const PrepareContext& context, size_t index, DType type) {
  return context.has_input(index) ? &context.input(index, type) : nullptr;
}

// Whether the codes of a constant can be packed once: its zero points must be known as well.
inline bool packs_once(const Tensor& codes, const Tensor* zero) {
  return codes.constant && (zero == nullptr || zero->constant);
}

// Back to codes: the real value sum * multiplier, rounded half to even, then the zero point added, then kept in range.
// The product is of float64: it is exact for a sum of up to 29 bits, the same on every chip, and clamped before any
// conversion. ONNX rounds before it adds the zero point (its reference evaluator after: they differ at exact halves
// with an odd zero point). What is no number becomes the zero point.
struct Requantise {
  double least = 0, most = 255;

  static Requantise to(DType type) { return type == DType::uint8 ? Requantise{0, 255} : Requantise{-128, 127}; }

  // The code's low eight bits, which are those of uint8 and int8 alike.
  uint8_t operator()(int64_t sum, float multiplier, int32_t zero) const {
    const double scaled = std::nearbyint(static_cast<double>(sum) * static_cast<double>(multiplier)) + zero;
    const double kept = scaled < least ? least : scaled > most ? most : scaled;
    return static_cast<uint8_t>(kept == kept ? static_cast<int32_t>(kept) : zero);
  }
};

}  // namespace refrt
