#include "ops/op.h"

#include <algorithm>
#include <map>

#include "api/failure.h"

namespace refrt {

int item_size(DType dtype) {
  switch (dtype) {
    case DType::uint8:
    case DType::int8:
    case DType::boolean:
      return 1;
    case DType::uint16:
    case DType::int16:
    case DType::float16:
    case DType::bfloat16:
      return 2;
    case DType::float32:
    case DType::int32:
    case DType::uint32:
      return 4;
    case DType::float64:
    case DType::int64:
    case DType::uint64:
      return 8;
  }
  return 0;
}

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "float32";
    case DType::uint8:
      return "uint8";
    case DType::int8:
      return "int8";
    case DType::uint16:
      return "uint16";
    case DType::int16:
      return "int16";
    case DType::int32:
      return "int32";
    case DType::int64:
      return "int64";
    case DType::boolean:
      return "bool";
    case DType::float16:
      return "float16";
    case DType::float64:
      return "float64";
    case DType::uint32:
      return "uint32";
    case DType::uint64:
      return "uint64";
    case DType::bfloat16:
      return "bfloat16";
  }
  return "unknown";
}

std::string shape_text(const Tensor& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.rank; ++i) text += (i > 0 ? "," : "") + std::to_string(tensor.dims[i]);
  return text + "]";
}

bool same_shape(const Tensor& a, const Tensor& b) {
  return a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims);
}

namespace {

[[noreturn]] void wrong_attribute(std::string_view name) {
  bad_request("attribute " + std::string(name) + " has the wrong type or length");
}

std::map<std::string_view, OperatorFactory>& registry() {
  static std::map<std::string_view, OperatorFactory> operators;
  return operators;
}

std::string node_prefix(const PrepareContext& context) {
  return "node " + std::string(context.node) + " (" + std::string(context.op) + "): ";
}

}  // namespace

const Attribute* Attributes::find(std::string_view name) const {
  for (const Attribute& item : items_) {
    if (item.name == name) return &item;
  }
  return nullptr;
}

int64_t Attributes::integer(std::string_view name, int64_t absent) const { return integers(name, {absent}, 1)[0]; }

float Attributes::number(std::string_view name, float absent) const {
  const Attribute* item = find(name);
  if (item == nullptr) return absent;
  if (item->kind != Attribute::Kind::floats || item->floats.size() != 1) wrong_attribute(name);
  return item->floats[0];
}

std::string_view Attributes::text(std::string_view name, std::string_view absent) const {
  const Attribute* item = find(name);
  if (item == nullptr) return absent;
  if (item->kind != Attribute::Kind::text) wrong_attribute(name);
  return item->text;
}

std::vector<int64_t> Attributes::integers(std::string_view name, std::vector<int64_t> absent, int length) const {
  const Attribute* item = find(name);
  if (item == nullptr) return absent;
  if (item->kind != Attribute::Kind::integers) wrong_attribute(name);
  if (length >= 0 && item->integers.size() != static_cast<size_t>(length)) wrong_attribute(name);
  return item->integers;
}

void PrepareContext::require(bool held, const char* message) const {
  if (!held) bad_request(node_prefix(*this) + message);
}

void PrepareContext::unsupported(const std::string& message) const { refrt::unsupported(node_prefix(*this) + message); }

const Tensor& PrepareContext::input(size_t index, DType dtype) const {
  require(has_input(index), "an input is missing");
  if (inputs[index]->dtype != dtype) unsupported(std::string("input of type ") + dtype_name(inputs[index]->dtype));
  return *inputs[index];
}

const Tensor& PrepareContext::output(size_t index, DType dtype) const {
  require(index < outputs.size() && outputs[index] != nullptr, "an output is missing");
  if (outputs[index]->dtype != dtype) unsupported(std::string("output of type ") + dtype_name(outputs[index]->dtype));
  return *outputs[index];
}

void PrepareContext::expect_counts(size_t least_inputs, size_t most_inputs, size_t most_outputs) const {
  require(inputs.size() >= least_inputs && inputs.size() <= most_inputs, "a wrong number of inputs");
  for (size_t i = 0; i < least_inputs; ++i) require(inputs[i] != nullptr, "an input is missing");
  require(!outputs.empty() && outputs.size() <= most_outputs, "a wrong number of outputs");
}

void PrepareContext::expect_no_epilogue() const { require(epilogue == nullptr, "cannot have fused stages"); }

void PrepareContext::request_workspace(int64_t bytes) {
  require(bytes >= 0 && bytes <= kMaxTensorBytes, "needs more than 1 GiB of scratch memory");
  workspace_bytes = std::max(workspace_bytes, bytes);
}

OperatorFactory find_operator(std::string_view name) {
  const auto found = registry().find(name);
  return found == registry().end() ? nullptr : found->second;
}

std::vector<std::string_view> operator_names() {
  std::vector<std::string_view> names;
  for (const auto& entry : registry()) names.push_back(entry.first);
  return names;
}

bool register_operator(const char* name, OperatorFactory factory) { return registry().emplace(name, factory).second; }

}  // namespace refrt
