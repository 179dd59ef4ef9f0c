#include "api/json.h"

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include "api/failure.h"

namespace refrt {
namespace {

constexpr size_t kMostDepth = 32;

// Builds the tree from rapidjson's events. Pointers on the stack stay valid: only the innermost container grows.
struct Builder : rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Builder> {
  Json root;
  std::vector<Json*> open;
  std::string key;

  Json* add(Json::Type type) {
    Json* place = &root;
    if (!open.empty()) {
      Json& parent = *open.back();
      if (parent.type == Json::Type::array) {
        place = &parent.items.emplace_back();
      } else {
        place = &parent.members.emplace_back(std::move(key), Json()).second;
      }
    }
    place->type = type;
    return place;
  }
  bool whole(int64_t value) {
    Json* place = add(Json::Type::integer);
    place->whole = value;
    place->real = static_cast<double>(value);
    return true;
  }

  bool Null() { return add(Json::Type::null) != nullptr; }
  bool Bool(bool value) {
    add(Json::Type::boolean)->flag = value;
    return true;
  }
  bool Int(int value) { return whole(value); }
  bool Uint(unsigned value) { return whole(value); }
  bool Int64(int64_t value) { return whole(value); }
  bool Uint64(uint64_t value) { return Double(static_cast<double>(value)); }
  bool Double(double value) {
    add(Json::Type::number)->real = value;
    return true;
  }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    add(Json::Type::text)->string.assign(text, size);
    return true;
  }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    key.assign(text, size);
    return true;
  }
  bool start(Json::Type type) {
    open.push_back(add(type));
    return open.size() <= kMostDepth;
  }
  bool end() {
    open.pop_back();
    return true;
  }
  bool StartObject() { return start(Json::Type::object); }
  bool EndObject(rapidjson::SizeType) { return end(); }
  bool StartArray() { return start(Json::Type::array); }
  bool EndArray(rapidjson::SizeType) { return end(); }
};

}  // namespace

Json Json::parse(std::string_view text) {
  rapidjson::MemoryStream bytes(text.data(), text.size());
  rapidjson::EncodedInputStream<rapidjson::UTF8<>, rapidjson::MemoryStream> stream(bytes);
  rapidjson::Reader reader;
  Builder builder;
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseFullPrecisionFlag | rapidjson::kParseValidateEncodingFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
  if (result.IsError()) {
    bad_request("not JSON at byte " + std::to_string(result.Offset()) + ": " +
                rapidjson::GetParseError_En(result.Code()));
  }
  return std::move(builder.root);
}

const Json* Json::find(std::string_view key) const {
  for (const auto& member : members) {
    if (member.first == key) return member.second.type == Type::null ? nullptr : &member.second;
  }
  return nullptr;
}

const Json& Json::at(std::string_view key, const std::string& where) const {
  const Json* found = find(key);
  if (found == nullptr) bad_request(where + "." + std::string(key) + " is missing");
  return *found;
}

const std::string& Json::text(const std::string& where) const {
  if (type != Type::text) bad_request(where + " is not a string");
  return string;
}

int64_t Json::integer(const std::string& where, int64_t least, int64_t most) const {
  if (type != Type::integer) bad_request(where + " is not a whole number");
  if (whole < least || whole > most) {
    bad_request(where + " is " + std::to_string(whole) + ", outside " + std::to_string(least) + " … " +
                std::to_string(most));
  }
  return whole;
}

double Json::number(const std::string& where) const {
  if (type != Type::integer && type != Type::number) bad_request(where + " is not a number");
  return real;
}

const std::vector<Json>& Json::array(const std::string& where) const {
  if (type != Type::array) bad_request(where + " is not an array");
  return items;
}

const std::vector<std::pair<std::string, Json>>& Json::object(const std::string& where) const {
  if (type != Type::object) bad_request(where + " is not an object");
  return members;
}

}  // namespace refrt
