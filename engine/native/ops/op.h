// What an operator is: one file in ops/, one class, one REFRT_OPERATOR line, one test file.
//
// To add an operator NAME: write ops/name.cpp with a class that derives from Operator, end it with
// REFRT_OPERATOR("Name", ClassName), and write tests/engine/native/ops/test_name.py. No list is edited.
//
// The model file is untrusted: prepare() checks every rank, dimension, dtype and attribute it relies on
// (`context.require(...)`), so that run() may index without checks. Element types are float32 unless an
// operator says otherwise. NaN bits may be any NaN: digests and outputs are canonicalised by the observer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refrt {

class ThreadPool;  // backends/cpu/threads.h
struct Epilogue;   // kernels/epilogue.h

constexpr int kMaxRank = 8;
constexpr int64_t kMaxTensorBytes = int64_t{1} << 30;

// Values are those of ONNX TensorProto.DataType.
enum class DType : uint8_t {
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  bfloat16 = 16,
};

// Bytes of one element; 0 for an unknown type.
int item_size(DType dtype);
// numpy's name of the type.
const char* dtype_name(DType dtype);

// A view on dense little-endian elements in C order. `data` is null before memory is planned, except for
// constants, whose data is mapped from the model file (read-only!) and valid in prepare() already.
struct Tensor {
  DType dtype = DType::float32;
  int rank = 0;
  int64_t dims[kMaxRank] = {};
  void* data = nullptr;
  bool constant = false;

  int64_t count() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
  // Product of dims[begin] … dims[end - 1].
  int64_t span(int begin, int end) const {
    int64_t n = 1;
    for (int i = begin; i < end; ++i) n *= dims[i];
    return n;
  }
  int64_t bytes() const { return count() * item_size(dtype); }
  float* f32() const { return static_cast<float*>(data); }
  const int64_t* i64() const { return static_cast<const int64_t*>(data); }
};

std::string shape_text(const Tensor& tensor);
bool same_shape(const Tensor& a, const Tensor& b);

// One typed attribute; exactly one of the vectors is filled (`text` for strings).
struct Attribute {
  enum class Kind : uint8_t { integers = 1, floats = 2, text = 3 };
  std::string_view name;
  Kind kind = Kind::integers;
  std::vector<int64_t> integers;
  std::vector<float> floats;
  std::string_view text;
};

// Attributes of one node. A present attribute of the wrong kind or length is a bad model, never ignored.
class Attributes {
 public:
  explicit Attributes(std::vector<Attribute> items = {}) : items_(std::move(items)) {}
  bool has(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t absent) const;
  float number(std::string_view name, float absent) const;
  std::string_view text(std::string_view name, std::string_view absent) const;
  // Exactly `length` integers (any length when -1), or `absent` when the attribute is not there.
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> absent, int length = -1) const;

 private:
  const Attribute* find(std::string_view name) const;
  std::vector<Attribute> items_;
};

// What prepare() sees: shapes of everything, data of constants. Absent optional inputs are null.
class PrepareContext {
 public:
  std::string_view node;  // ONNX node or first output name, for messages
  std::string_view op;
  std::vector<const Tensor*> inputs;
  std::vector<const Tensor*> outputs;
  const Attributes* attributes = nullptr;
  const Epilogue* epilogue = nullptr;  // stages fused behind this operator; null when there are none
  int threads = 1;

  // Throws Failure(2) "node (op): message" when `held` is false.
  void require(bool held, const char* message) const;
  // Throws Failure(3): the operator cannot do this, the model is fine.
  [[noreturn]] void unsupported(const std::string& message) const;
  // The input, after checking that it exists and has this type.
  const Tensor& input(size_t index, DType dtype = DType::float32) const;
  const Tensor& output(size_t index, DType dtype = DType::float32) const;
  bool has_input(size_t index) const { return index < inputs.size() && inputs[index] != nullptr; }
  // Refuses inputs or outputs beyond these counts.
  void expect_counts(size_t least_inputs, size_t most_inputs, size_t most_outputs = 1) const;
  // Refuses fused stages: the default of every operator but Conv and MatMul.
  void expect_no_epilogue() const;

  // Scratch bytes run() needs at context.workspace (64-byte aligned, shared by all operators, undefined content).
  void request_workspace(int64_t bytes);
  int64_t workspace_bytes = 0;
};

// What run() sees. Shapes are those of prepare(); data pointers are valid and 64-byte aligned, except mapped
// constants, which are 64-byte aligned too. Outputs never overlap inputs.
struct RunContext {
  Tensor* const* inputs = nullptr;  // null entries for absent optional inputs
  Tensor* const* outputs = nullptr;
  const Epilogue* epilogue = nullptr;  // same stages as in prepare(); taps set in an instrumented pass only
  void* workspace = nullptr;
  ThreadPool* threads = nullptr;
};

class Operator {
 public:
  virtual ~Operator() = default;
  // Once per session: check shapes and attributes, pack weights, ask for workspace.
  virtual void prepare(PrepareContext& context) = 0;
  // Once per pass; allocates nothing. Bits do not depend on the number of threads.
  virtual void run(const RunContext& context) = 0;
};

using OperatorFactory = std::unique_ptr<Operator> (*)();

// Null when no operator has this name.
OperatorFactory find_operator(std::string_view name);
std::vector<std::string_view> operator_names();
bool register_operator(const char* name, OperatorFactory factory);

#define REFRT_OPERATOR(NAME, TYPE)                                                         \
  [[maybe_unused]] static const bool refrt_registered_##TYPE = ::refrt::register_operator( \
      NAME, []() -> std::unique_ptr<::refrt::Operator> { return std::make_unique<TYPE>(); })

}  // namespace refrt
