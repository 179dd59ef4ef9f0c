#include "api/request.h"

#include <cmath>

#include "api/failure.h"
#include "api/files.h"
#include "api/json.h"

namespace refrt {
namespace {

constexpr int64_t kContract = 1;
constexpr int64_t kMostThreads = 64;
constexpr int64_t kMostIterations = 1'000'000;

std::string text_or(const Json& root, const char* key, const char* absent) {
  const Json* found = root.find(key);
  return found == nullptr ? absent : found->text(std::string("request.") + key);
}

int64_t integer_or(const Json& root, const char* key, int64_t absent, int64_t least, int64_t most) {
  const Json* found = root.find(key);
  return found == nullptr ? absent : found->integer(std::string("request.") + key, least, most);
}

TensorFile read_tensor(const Json& json, const std::string& where) {
  TensorFile file;
  json.object(where);
  if (const Json* name = json.find("name")) file.name = name->text(where + ".name");
  file.dtype = json.at("dtype", where).text(where + ".dtype");
  for (const Json& dim : json.at("shape", where).array(where + ".shape")) {
    file.shape.push_back(dim.integer(where + ".shape", 0, kMaxTensorBytes));
  }
  file.path = json.at("path", where).text(where + ".path");
  return file;
}

void read_passes(const Json& root, Request& request) {
  const Json* passes = root.find("passes");
  if (passes == nullptr) {
    request.passes = {PassKind::plain, PassKind::instrumented};
    return;
  }
  for (const Json& item : passes->array("request.passes")) {
    const std::string& kind = item.text("request.passes");
    if (kind != "plain" && kind != "instrumented") bad_request("request.passes names unknown pass " + kind);
    request.passes.push_back(kind == "plain" ? PassKind::plain : PassKind::instrumented);
  }
  if (request.passes.empty() && request.isolated.empty()) bad_request("request.passes is empty");
}

void read_model(const Json& root, Request& request) {
  const Json& model = root.at("model", "request");
  request.model_path = model.at("path", "request.model").text("request.model.path");
  const std::string& format = model.at("format", "request.model").text("request.model.format");
  if (format != "refrt") unsupported("model format " + format + " is not supported; refrt reads format refrt");
}

void refuse_what_is_not_there(const Json& root) {
  const std::string backend = text_or(root, "backend", "cpu");
  if (backend != "cpu") unsupported("backend " + backend + " is not supported; refrt runs on cpu");
  const std::string precision = text_or(root, "precision", "fp32");
  if (precision != "fp32") unsupported("precision " + precision + " is not supported; refrt computes in fp32");
  if (root.find("strategy") != nullptr) unsupported("a strategy is not supported: refrt has one backend");
}

void read_golden(const Json& root, Request& request) {
  const Json* golden = root.find("golden");
  if (golden == nullptr) return;
  for (const auto& [layer, json] : golden->object("request.golden")) {
    const std::string where = "request.golden[" + layer + "]";
    GoldenTensor tensor;
    tensor.layer = layer;
    tensor.file = read_tensor(json, where);
    tensor.bound = json.at("bound", where).number(where + ".bound");
    if (!(tensor.bound >= 0)) bad_request(where + ".bound is negative");
    request.golden.push_back(std::move(tensor));
  }
}

void read_isolated(const Json& root, Request& request) {
  const Json* isolated = root.find("isolated");
  if (isolated == nullptr) return;
  for (const auto& [layer, inputs] : isolated->object("request.isolated")) {
    const std::string where = "request.isolated[" + layer + "]";
    IsolatedLayer order;
    order.id = layer;
    for (const auto& [name, json] : inputs.object(where)) {
      order.inputs.push_back(read_tensor(json, where + "[" + name + "]"));
      order.inputs.back().name = name;
    }
    request.isolated.push_back(std::move(order));
  }
}

void read_names(const Json& root, const char* key, std::vector<std::string>& names) {
  const Json* list = root.find(key);
  if (list == nullptr) return;
  const std::string where = std::string("request.") + key;
  for (const Json& item : list->array(where)) names.push_back(item.text(where));
}

void read_limits(const Json& root, Request& request) {
  const Json* limits = root.find("limits");
  if (limits == nullptr) return;
  if (const Json* seconds = limits->find("seconds")) request.limit_seconds = seconds->number("request.limits.seconds");
  if (const Json* bytes = limits->find("result_bytes")) {
    request.limit_result_bytes = bytes->integer("request.limits.result_bytes", 0, INT64_MAX);
  }
  if (!(request.limit_seconds > 0 && request.limit_seconds < 1e7)) bad_request("request.limits.seconds is not usable");
}

Request read(const Json& root) {
  Request request;
  root.object("request");
  root.at("contract", "request").integer("request.contract", kContract, kContract);
  request.job = root.at("job", "request").text("request.job");
  request.attempt = root.at("attempt", "request").integer("request.attempt", 0, INT64_MAX);
  read_model(root, request);
  refuse_what_is_not_there(root);
  for (const Json& item : root.at("inputs", "request").array("request.inputs")) {
    request.inputs.push_back(read_tensor(item, "request.inputs[" + std::to_string(request.inputs.size()) + "]"));
  }
  read_isolated(root, request);
  read_passes(root, request);
  request.iterations = integer_or(root, "iterations", 1, 1, kMostIterations);
  request.threads = static_cast<int>(integer_or(root, "threads", 1, 1, kMostThreads));
  read_golden(root, request);
  read_names(root, "keep", request.keep);
  read_names(root, "capture", request.capture);
  read_limits(root, request);
  return request;
}

}  // namespace

Request read_request(const std::string& path) {
  const MappedFile file(path);
  try {
    return read(Json::parse(file.view()));
  } catch (const Failure& failure) {
    throw Failure(failure.code(), path + ": " + failure.what());
  }
}

void check_same(const TensorFile& file, const Tensor& tensor, const std::string& what) {
  bool same = file.dtype == dtype_name(tensor.dtype) && file.shape.size() == static_cast<size_t>(tensor.rank);
  for (size_t i = 0; same && i < file.shape.size(); ++i) same = file.shape[i] == tensor.dims[i];
  if (same) return;
  std::string given = file.dtype + "[";
  for (size_t i = 0; i < file.shape.size(); ++i) given += (i > 0 ? "," : "") + std::to_string(file.shape[i]);
  bad_request(what + " is " + given + "]; the model has " + dtype_name(tensor.dtype) + shape_text(tensor));
}

}  // namespace refrt
