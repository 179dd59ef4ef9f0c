// Reads the flat model file. Its writer is engine/models/flatfile.py; both follow docs/flat-format.md.
#include <array>
#include <string>

#include "graph/cursor.h"
#include "graph/graph.h"
#include "graph/utf8.h"

namespace refrt {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the flat file is little-endian");

constexpr char kMagic[] = "REFRTMDL";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 128;
constexpr size_t kTensorBytes = 96;
constexpr size_t kLayerBytes = 16;
constexpr size_t kSectionAlignment = 64;
constexpr size_t kMostTensors = 1 << 16;
constexpr size_t kMostStages = 8;

struct Section {
  const unsigned char* data = nullptr;
  size_t size = 0;
};
enum SectionIndex { kStrings, kTensors, kNodes, kLayers, kEnds, kWeights, kSections };
constexpr const char* kSectionNames[kSections] = {"strings", "tensors", "nodes", "layers", "ends", "weights"};

class Reader {
 public:
  explicit Reader(Graph& graph) : graph_(graph) {}

  void read() {
    const uint32_t nodes = read_header();
    read_strings();
    read_tensors();
    read_nodes(nodes);
    read_layers();
    read_ends();
  }

 private:
  Cursor cursor(SectionIndex index) const {
    return {sections_[index].data, sections_[index].size, kSectionNames[index]};
  }

  uint32_t read_header() {
    const MappedFile& file = graph_.file;
    if (file.size() < kHeaderBytes || std::memcmp(file.data(), kMagic, 8) != 0) {
      bad_request("not a refrt model file (no REFRTMDL header)");
    }
    Cursor header(file.data() + 8, kHeaderBytes - 8, "header");
    const auto version = header.read<uint32_t>();
    if (version != kVersion) {
      bad_request("format version " + std::to_string(version) + "; this runner reads " + std::to_string(kVersion));
    }
    if (header.read<uint32_t>() != kHeaderBytes) header.fail("has an unknown size");
    if (header.read<uint64_t>() != file.size()) bad_request("the file is truncated or has trailing bytes");
    for (int i = 0; i < kSections; ++i) {
      const auto offset = header.read<uint64_t>();
      const auto size = header.read<uint64_t>();
      if (offset > file.size() || size > file.size() - offset || offset % kSectionAlignment != 0) {
        bad_request(std::string("section ") + kSectionNames[i] + " lies outside the file");
      }
      sections_[static_cast<size_t>(i)] = {file.data() + offset, static_cast<size_t>(size)};
    }
    return header.read<uint32_t>();
  }

  void read_strings() {
    Cursor in = cursor(kStrings);
    const size_t count = in.count(in.read<uint32_t>(), 4);
    std::vector<uint32_t> offsets(in.count(count + 1, 4));
    for (uint32_t& offset : offsets) offset = in.read<uint32_t>();
    const size_t text_bytes = sections_[kStrings].size - 4 - 4 * offsets.size();
    const char* text = reinterpret_cast<const char*>(sections_[kStrings].data) + 4 + 4 * offsets.size();
    for (size_t i = 0; i < count; ++i) {
      if (offsets[i] > offsets[i + 1] || offsets[i + 1] > text_bytes) in.fail("has a string outside its text");
      strings_.emplace_back(text + offsets[i], offsets[i + 1] - offsets[i]);
      if (!is_printable_utf8(strings_.back())) in.fail("has a text that is not printable UTF-8");
    }
  }

  std::string_view string(Cursor& in) const {
    const auto index = in.read<uint32_t>();
    if (index >= strings_.size()) in.fail("names a string that does not exist");
    return strings_[index];
  }

  void read_tensors() {
    Cursor in = cursor(kTensors);
    const size_t count = sections_[kTensors].size / kTensorBytes;
    if (sections_[kTensors].size % kTensorBytes != 0 || count > kMostTensors) in.fail("has an impossible size");
    graph_.tensors.resize(count);
    for (size_t i = 0; i < count; ++i) read_tensor(in, i);
  }

  void read_tensor(Cursor& in, size_t index) {
    GraphTensor& tensor = graph_.tensors[index];
    tensor.name = string(in);
    tensor.view.dtype = static_cast<DType>(in.read<uint8_t>());
    const int item = item_size(tensor.view.dtype);
    tensor.view.rank = in.read<uint8_t>();
    if (item == 0 || tensor.view.rank > kMaxRank || in.read<uint16_t>() != 0) in.fail("has an unknown type or rank");
    const auto alias = in.read<int32_t>();
    if (alias >= static_cast<int64_t>(index) || alias < -1 || in.read<uint32_t>() != 0) in.fail("has a wrong alias");
    const auto data = in.read<int64_t>();
    const auto bytes = in.read<int64_t>();
    int64_t product = item;
    for (int d = 0; d < kMaxRank; ++d) {
      const auto dim = in.read<int64_t>();
      if (dim < 0 || dim > kMaxTensorBytes || (d >= tensor.view.rank && dim != 0)) in.fail("has a wrong dimension");
      tensor.view.dims[d] = dim;
      if (d >= tensor.view.rank) continue;
      product *= dim;
      if (product > kMaxTensorBytes) in.fail("has a tensor of more than 1 GiB");
    }
    if (bytes != product) in.fail("disagrees with itself about the bytes of a tensor");
    tensor.root = alias < 0 ? static_cast<int>(index) : graph_.tensors[static_cast<size_t>(alias)].root;
    if (alias >= 0) read_alias(in, tensor, data);
    if (alias < 0 && data >= 0) read_constant(in, tensor, data);
    if (data < -1) in.fail("has a wrong data offset");
  }

  void read_alias(Cursor& in, GraphTensor& tensor, int64_t data) const {
    const Tensor& root = graph_.tensors[static_cast<size_t>(tensor.root)].view;
    if (data != -1 || root.bytes() != tensor.view.bytes() || root.dtype != tensor.view.dtype) {
      in.fail("has an alias of another size");
    }
    tensor.view.data = root.data;
    tensor.view.constant = root.constant;
  }

  void read_constant(Cursor& in, GraphTensor& tensor, int64_t data) const {
    const Section& weights = sections_[kWeights];
    const auto bytes = static_cast<uint64_t>(tensor.view.bytes());
    const auto offset = static_cast<uint64_t>(data);
    if (offset > weights.size || bytes > weights.size - offset || offset % kSectionAlignment != 0) {
      in.fail("has a constant outside the weights");
    }
    tensor.view.data = const_cast<unsigned char*>(weights.data + offset);  // constants are never written: validate()
    tensor.view.constant = true;
  }

  int tensor_index(Cursor& in, bool optional) const {
    const auto index = in.read<int32_t>();
    if (index >= static_cast<int64_t>(graph_.tensors.size()) || index < (optional ? -1 : 0)) {
      in.fail("names a tensor that does not exist");
    }
    return index;
  }

  std::vector<int> tensor_list(Cursor& in, uint32_t claimed, bool optional) const {
    std::vector<int> list(in.count(claimed, 4));
    for (int& item : list) item = tensor_index(in, optional);
    return list;
  }

  Attributes read_attributes(Cursor& in, uint32_t claimed) const {
    std::vector<Attribute> items(in.count(claimed, 12));
    for (Attribute& item : items) {
      item.name = string(in);
      const auto kind = in.read<uint32_t>();
      const auto values = in.read<uint32_t>();
      item.kind = static_cast<Attribute::Kind>(kind);
      if (kind == 1) {
        item.integers.resize(in.count(values, 8));
        for (int64_t& value : item.integers) value = in.read<int64_t>();
      } else if (kind == 2) {
        item.floats.resize(in.count(values, 4));
        for (float& value : item.floats) value = in.read<float>();
      } else if (kind == 3 && values == 1) {
        item.text = string(in);
      } else {
        in.fail("has an attribute of unknown kind");
      }
    }
    return Attributes(std::move(items));
  }

  void read_nodes(uint32_t claimed) {
    Cursor in = cursor(kNodes);
    graph_.nodes.resize(in.count(claimed, 20));
    for (Node& node : graph_.nodes) {
      node.op = string(in);
      node.name = string(in);
      const auto inputs = in.read<uint16_t>();
      const auto outputs = in.read<uint16_t>();
      const auto attributes = in.read<uint16_t>();
      const auto stages = in.read<uint16_t>();
      node.raw = tensor_index(in, true);
      node.inputs = tensor_list(in, inputs, true);
      node.outputs = tensor_list(in, outputs, true);
      node.attributes = read_attributes(in, attributes);
      if (stages > kMostStages || (stages > 0) != (node.raw >= 0)) in.fail("has a wrong list of stages");
      node.stages.resize(stages);
      for (FusedStage& stage : node.stages) read_stage(in, stage);
    }
    if (!in.at_end()) in.fail("has trailing bytes");
  }

  void read_stage(Cursor& in, FusedStage& stage) const {
    stage.op = string(in);
    stage.output = tensor_index(in, false);
    const auto inputs = in.read<uint16_t>();
    const auto attributes = in.read<uint16_t>();
    stage.inputs = tensor_list(in, inputs, false);
    stage.attributes = read_attributes(in, attributes);
  }

  void read_layers() {
    Cursor in = cursor(kLayers);
    if (sections_[kLayers].size % kLayerBytes != 0) in.fail("has an impossible size");
    graph_.layers.resize(sections_[kLayers].size / kLayerBytes);
    for (Layer& layer : graph_.layers) {
      layer.id = string(in);
      layer.op = string(in);
      layer.tensor = tensor_index(in, false);
      layer.node = in.read<int32_t>();
      if (layer.node < -1 || layer.node >= static_cast<int64_t>(graph_.nodes.size())) in.fail("names a wrong node");
    }
  }

  void read_ends() {
    Cursor in = cursor(kEnds);
    const auto inputs = in.read<uint32_t>();
    const auto outputs = in.read<uint32_t>();
    graph_.inputs = tensor_list(in, inputs, false);
    graph_.outputs = tensor_list(in, outputs, false);
    if (!in.at_end()) in.fail("has trailing bytes");
  }

  Graph& graph_;
  std::array<Section, kSections> sections_;
  std::vector<std::string_view> strings_;
};

}  // namespace

Graph read_graph(const std::string& path) {
  Graph graph;
  graph.file = MappedFile(path);
  try {
    Reader(graph).read();
    validate(graph);
  } catch (const Failure& failure) {
    throw Failure(failure.code(), "model " + path + ": " + failure.what());
  }
  return graph;
}

}  // namespace refrt
