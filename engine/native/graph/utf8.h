// Texts of a model file end up in messages and in result.json: they must be UTF-8 without control characters.
#pragma once

#include <cstdint>
#include <string_view>

namespace refrt {

// Unicode 3.9, table 3-7: shortest form, no surrogates, nothing above U+10FFFF.
inline bool is_printable_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x20 || lead == 0x7f || (lead > 0x7f && lead < 0xc2) || lead > 0xf4) return false;
    const size_t more = lead < 0x80 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    if (more >= text.size() - i) return false;
    uint32_t point = more == 0 ? lead : lead & (0x3fu >> more);
    for (size_t k = 1; k <= more; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      point = point << 6 | (next & 0x3fu);
    }
    const bool overlong = (more == 2 && point < 0x800) || (more == 3 && point < 0x10000);
    if (overlong || (point >= 0xd800 && point < 0xe000) || point > 0x10ffff) return false;
    i += 1 + more;
  }
  return true;
}

}  // namespace refrt
