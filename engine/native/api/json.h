// JSON as the request uses it: parsed by rapidjson (iteratively, so that depth cannot exhaust the stack).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refrt {

// One value that knows where it stands, so that every complaint (Failure(2)) names the key path.
class Json {
 public:
  enum class Type { null, boolean, integer, number, text, array, object };

  // Throws Failure(2) naming the offset of the first error.
  static Json parse(std::string_view text);

  Type type = Type::null;
  bool flag = false;
  int64_t whole = 0;
  double real = 0;
  std::string string;
  std::vector<Json> items;
  std::vector<std::pair<std::string, Json>> members;

  const Json* find(std::string_view key) const;  // null when absent or null
  const Json& at(std::string_view key, const std::string& where) const;
  const std::string& text(const std::string& where) const;
  int64_t integer(const std::string& where, int64_t least, int64_t most) const;
  double number(const std::string& where) const;
  const std::vector<Json>& array(const std::string& where) const;
  const std::vector<std::pair<std::string, Json>>& object(const std::string& where) const;
};

}  // namespace refrt
