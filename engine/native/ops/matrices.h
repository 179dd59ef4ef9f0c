// The matrices of numpy's matmul: broadcast batches and one-dimensional operands, of any element type.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/op.h"

namespace refrt {

struct Matrices {
  struct Place {
    size_t a, b;  // where a matrix starts in its operand
  };

  size_t m = 0, n = 0, k = 0;
  std::vector<Place> places;  // places[i] belongs to matrix i of the output

  // Checks the shapes of y = a · b.
  void read(const PrepareContext& context, const Tensor& a, const Tensor& b, const Tensor& y) {
    context.require(a.rank >= 1 && b.rank >= 1, "an operand is a scalar");
    const int64_t depth = a.dims[a.rank - 1];
    context.require(b.dims[b.rank == 1 ? 0 : b.rank - 2] == depth, "the inner dimensions differ");
    const int64_t rows = a.rank == 1 ? 1 : a.dims[a.rank - 2];
    const int64_t columns = b.rank == 1 ? 1 : b.dims[b.rank - 1];
    m = static_cast<size_t>(rows);
    n = static_cast<size_t>(columns);
    k = static_cast<size_t>(depth);
    read_batches(context, a, b, y);
    context.require(y.span(0, y.rank) == static_cast<int64_t>(places.size()) * rows * columns,
                    "the output has other dimensions");
  }

  // Many left matrices times one right matrix are one taller product.
  void fold_rows() {
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i].b != 0 || places[i].a != i * m * k) return;
    }
    if (places.empty()) return;
    m *= places.size();
    places.resize(1);
  }

 private:
  // Walks the broadcast batch dimensions in C order.
  void read_batches(const PrepareContext& context, const Tensor& a, const Tensor& b, const Tensor& y) {
    const int of_a = std::max(0, a.rank - 2), of_b = std::max(0, b.rank - 2), batches = std::max(of_a, of_b);
    const int kept = (a.rank > 1) + (b.rank > 1);
    context.require(y.rank == batches + kept, "the output has another rank");
    places.assign(1, Place{0, 0});
    for (int i = 0; i < batches; ++i) {
      const int64_t in_a = i < batches - of_a ? 1 : a.dims[i - (batches - of_a)];
      const int64_t in_b = i < batches - of_b ? 1 : b.dims[i - (batches - of_b)];
      context.require(in_a == in_b || in_a == 1 || in_b == 1, "batch dimensions cannot be broadcast");
      const int64_t count = in_a == 1 ? in_b : in_a;
      context.require(y.dims[i] == count, "the output has other dimensions");
      if (count > kMostMatrices / std::max<int64_t>(1, static_cast<int64_t>(places.size()))) {
        context.unsupported("too many matrices in a batch");
      }
      std::vector<Place> next;
      for (const Place& place : places) {
        for (int64_t j = 0; j < count; ++j) {
          next.push_back(Place{place.a * static_cast<size_t>(in_a) + static_cast<size_t>(in_a == 1 ? 0 : j),
                               place.b * static_cast<size_t>(in_b) + static_cast<size_t>(in_b == 1 ? 0 : j)});
        }
      }
      places = std::move(next);
    }
    for (Place& place : places) {
      place.a *= m * k;
      place.b *= k * n;
    }
  }

  static constexpr int64_t kMostMatrices = 1 << 16;
};

}  // namespace refrt
