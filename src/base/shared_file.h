// A file in memory (tmpfs, hugetlbfs) that several processes map, and the locks by which they agree about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/mapping.h"
#include "base/result.h"

namespace strata {

// Open for reading and writing; closed, and its locks dropped, by the destructor or with the process. Two objects of
// one file exclude each other like two processes. Failures name the file.
class SharedFile {
 public:
  enum class Lock { kShared, kExclusive };

  // The file of that name, or nothing where there is none. kBadInput for what can't be shared so: no regular file, a
  // symbolic link, a file on a drive, one that this user may not write.
  static Result<std::optional<SharedFile>> open(const std::string& path);
  // A new file of no bytes, or nothing where the name is taken. kNotFound without the folder; else as open().
  static Result<std::optional<SharedFile>> create(const std::string& path);

  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&& other) noexcept;
  ~SharedFile();

  // Asks for the lock of one byte (which need not exist) and does not wait; whether it was had. One that is held is
  // turned into the other kind, at once.
  Result<bool> try_lock(uint64_t byte, Lock kind);
  Status unlock(uint64_t byte);

  // Whether the name still leads to this file.
  bool is_at_path() const;
  // Takes the name away from whatever has it; the file lives on for those that have it open.
  Status remove();

  struct Size {
    uint64_t bytes = 0;
    uint64_t allocated = 0;  // of memory; less than bytes in a file with holes
    // When it was last written to, cut or lengthened, as the file system notes it; of what is written through a mapping
    // at most the first touch of each page.
    int64_t modified_ns = 0;
  };
  // Takes less than a microsecond.
  Result<Size> size() const;
  // What its file system still has room for; nullopt where that has no limit.
  Result<std::optional<uint64_t>> room() const;
  // Bytes from `offset` on, as many as there are.
  Result<size_t> read(uint64_t offset, std::span<std::byte> to) const;
  // Gives the range memory, full of zeros where it had none, and the file that size if it was smaller. kNoMemory where
  // the file system lacks the room: part of the range may have got some.
  Status allocate(uint64_t offset, uint64_t bytes);

  // Offset and bytes are multiples of kSharedPage, and lie inside.
  Result<std::unique_ptr<WritableMapping>> map_writable(uint64_t offset, uint64_t bytes) const;
  Result<std::unique_ptr<Mapping>> map_read_only(uint64_t offset, uint64_t bytes) const;

  const std::string& path() const { return path_; }

 private:
  SharedFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  static Result<std::optional<SharedFile>> open_with(const std::string& path, int flags);
  Status check() const;

  int fd_ = -1;
  std::string path_;
};

// What hugetlbfs deals in, and what a mapping on tmpfs has to be aligned to for large pages.
inline constexpr uint64_t kSharedPage = uint64_t{2} << 20;

// Memory that a file of this name can have beside what is available to everybody (available_ram_bytes): what it has,
// and on hugetlbfs the pages that are set aside there and free.
uint64_t own_memory_bytes(const std::string& path);

// What the system does for a mapping, where it can; no failure matters.
// Puts writable memory of a file on 2 MiB pages, and maps all its pages.
void populate_for_writing(std::span<std::byte> bytes);
// Maps all pages, so that reading them later costs no fault.
void populate_for_reading(std::span<const std::byte> bytes);
// How many bytes of memory, of a file or not, lie on large pages, as far as its pages are mapped. Counted in what the
// system maps as one, so neighbours that it maps together with the memory count as part of it.
uint64_t bytes_on_large_pages(std::span<const std::byte> memory);

}  // namespace strata
