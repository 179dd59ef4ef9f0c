// Files as this program meets them: mapped to read, written whole or not at all.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace refrt {

// A file mapped read-only. Throws Failure(2) naming the path when it cannot be opened or mapped.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const unsigned char* data() const { return data_; }
  size_t size() const { return size_; }
  std::string_view view() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const unsigned char* data_ = nullptr;
  size_t size_ = 0;
};

// Creates the folder (parents must exist); an existing folder is fine.
void make_folder(const std::string& path);
// Writes PATH.part and renames it; throws Failure(4) naming the path and the reason.
void write_file(const std::string& path, const void* data, size_t bytes);

}  // namespace refrt
