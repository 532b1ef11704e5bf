// Peak memory of the reader on the largest files it accepts and on files that ask for more: each is opened in a child
// process whose high-water mark is measured. Not with sanitizers, whose own memory would be counted too.
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gguf/gguf_builder.h"
#include "gguf/gguf.h"
#include "gguf/split.h"
#include "support/golden.h"

namespace strata::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMeasurable = false;
#elif defined(__has_feature)
constexpr bool kMeasurable = !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool kMeasurable = true;
#endif

constexpr long kPeakKibMax = 100'000'000 / 1024;

struct Outcome {
  bool ok = false;
  long peak_kib = 0;
  char message[1000] = {};
};

// Opens `path` in a child process.
Outcome open_in_child(const std::string& path) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    Outcome outcome;
    {
      const auto opened = gguf::Model::open(path, real_file_system());
      outcome.ok = opened.ok();
      if (!opened.ok()) std::strncpy(outcome.message, opened.error().message.c_str(), sizeof(outcome.message) - 1);
      rusage usage;
      ::getrusage(RUSAGE_SELF, &usage);
      outcome.peak_kib = usage.ru_maxrss;
    }
    const bool written = ::write(ends[1], &outcome, sizeof(outcome)) == sizeof(outcome);
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  Outcome outcome;
  EXPECT_EQ(::read(ends[0], &outcome, sizeof(outcome)), static_cast<ssize_t>(sizeof(outcome)));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return outcome;
}

// Writes a file piece by piece, so that this process stays small; zeros are holes.
class BigFile {
 public:
  explicit BigFile(const std::string& path) : out_(path, std::ios::binary) {}
  ~BigFile() {
    if (hole_) put(ByteString().u8(0));  // a hole needs an end
  }
  void put(const ByteString& bytes) {
    out_.write(reinterpret_cast<const char*>(bytes.bytes().data()), static_cast<std::streamsize>(bytes.size()));
    size_ += bytes.size();
    hole_ = false;
  }
  void zeros(uint64_t n) {
    out_.seekp(static_cast<std::streamoff>(n), std::ios::cur);
    size_ += n;
    hole_ = true;
  }
  void header(uint64_t n_tensors, uint64_t n_entries) {
    put(ByteString().text("GGUF").u32(3).u64(n_tensors).u64(n_entries));
  }
  void array(const std::string& key, uint32_t type, uint64_t count, uint64_t bytes) {
    put(ByteString().string(key).u32(9).u32(type).u64(count));
    zeros(bytes);
  }
  uint64_t size() const { return size_; }

 private:
  std::ofstream out_;
  uint64_t size_ = 0;
  bool hole_ = false;
};

void put_tensors(BigFile& file, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) {
    std::string name = std::to_string(i);
    name.resize(gguf::kMaxTensorNameBytes, 'n');
    file.put(ByteString().string(name).u32(1).u64(1).u32(24).u64(i));  // I8 {1} at i, alignment 1
  }
}

// As much of everything as the limits allow: entries, strings, tensors with long names, and metadata bytes.
void fullest_file(BigFile& file) {
  file.header(gguf::kMaxTensors, gguf::kMaxEntries);
  file.put(ByteString().string("general.alignment").u32(4).u32(1));
  for (uint64_t i = 3; i < gguf::kMaxEntries; ++i) {
    file.put(ByteString().string("entry.with.a.long.name." + std::to_string(i)).u32(0).u8(1));
  }
  file.array("strings", 8, gguf::kMaxStrings, 8 * gguf::kMaxStrings);
  constexpr uint64_t kTensorBytes = 8 + gguf::kMaxTensorNameBytes + 4 + 8 + 4 + 8;
  const uint64_t rest = gguf::kMaxMetadataBytes - file.size() - gguf::kMaxTensors * kTensorBytes - 28;
  file.array("fill", 0, rest, rest);
  put_tensors(file, gguf::kMaxTensors);
  file.zeros(gguf::kMaxTensors);
}

struct Case {
  const char* name;
  std::function<void(BigFile&)> make;
  const char* message;  // null: accepted
};

const Case kCases[] = {
    {"fullest file", fullest_file, nullptr},
    {"one string more than allowed",
     [](BigFile& file) {
       file.header(0, 1);
       file.array("strings", 8, gguf::kMaxStrings + 1, 8 * gguf::kMaxStrings + 8);
     },
     "array of 2000001 strings"},
    {"metadata beyond the limit",
     [](BigFile& file) {
       file.header(0, 2);
       file.array("first", 0, gguf::kMaxMetadataBytes / 2, gguf::kMaxMetadataBytes / 2);
       file.array("second", 0, gguf::kMaxMetadataBytes / 2, gguf::kMaxMetadataBytes / 2);
     },
     "metadata of more than 48 MiB"},
    {"a string of a terabyte in a file that has it",
     [](BigFile& file) {
       file.header(0, 1);
       file.put(ByteString().string("k").u32(8).u64(uint64_t{1} << 40));
       file.zeros(uint64_t{1} << 40);
     },
     "metadata of more than"},
    {"a count of strings that the file could hold",
     [](BigFile& file) {
       file.header(0, 1);
       file.array("k", 8, uint64_t{1} << 36, uint64_t{1} << 39);
     },
     "array of 68719476736 strings"},
    {"a count of tensors that the file could hold",
     [](BigFile& file) {
       file.header(uint64_t{1} << 32, 0);
       file.zeros(uint64_t{1} << 37);
     },
     "header claims 4294967296 tensors"},
};

TEST(MemoryTest, StaysUnder100MBOnAnyFile) {
  if (!kMeasurable) GTEST_SKIP() << "memory is not measured with sanitizers";
  const TempDir dir;
  const std::string path = dir.file("m.gguf");
  for (const Case& tested : kCases) {
    SCOPED_TRACE(tested.name);
    {
      BigFile file(path);
      tested.make(file);
    }
    const Outcome outcome = open_in_child(path);
    EXPECT_EQ(outcome.ok, tested.message == nullptr) << outcome.message;
    const std::string expected = tested.message ? tested.message : "";
    EXPECT_NE(std::string(outcome.message).find(expected), std::string::npos) << outcome.message;
    EXPECT_LT(outcome.peak_kib, kPeakKibMax);
    RecordProperty(std::string("peak KiB, ") + tested.name, static_cast<int>(outcome.peak_kib));
  }
}

// The limits are those of the whole set: a second file gets what the first has left.
TEST(MemoryTest, StaysUnder100MBOnAnySet) {
  if (!kMeasurable) GTEST_SKIP() << "memory is not measured with sanitizers";
  struct Part {
    uint64_t n_tensors = 0;
    uint64_t n_strings = 0;
    uint64_t fill_bytes = 0;
  };
  struct Row {
    Part first, second;
    const char* message;
  };
  const uint64_t half = gguf::kMaxMetadataBytes / 2;
  const Row rows[] = {
      {{.fill_bytes = half + kMiB}, {.fill_bytes = half + kMiB}, "metadata of more than 48 MiB"},
      {{.n_strings = gguf::kMaxStrings / 2}, {.n_strings = gguf::kMaxStrings / 2 + 1}, "array of 1000001 strings"},
      {{.n_tensors = gguf::kMaxTensors / 2}, {.n_tensors = gguf::kMaxTensors / 2 + 1},
       "header claims 50001 tensors, at most 50000"},
  };
  const TempDir dir;
  const auto make = [&](int number, const Part& part) {
    BigFile file(dir.file(gguf::split_file_name("m", number, 2)));
    file.header(part.n_tensors, 6);
    file.put(ByteString().string("split.no").u32(2).u16(static_cast<uint16_t>(number - 1)));
    file.put(ByteString().string("split.count").u32(2).u16(2));
    file.put(ByteString().string("split.tensors.count").u32(5).u32(0));
    file.put(ByteString().string("general.alignment").u32(4).u32(1));
    file.array("strings", 8, part.n_strings, 8 * part.n_strings);
    file.array("fill", 0, part.fill_bytes, part.fill_bytes);
    put_tensors(file, part.n_tensors);
    file.zeros(part.n_tensors + 1);
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.message);
    make(1, row.first);
    make(2, row.second);
    const Outcome outcome = open_in_child(dir.file(gguf::split_file_name("m", 1, 2)));
    EXPECT_NE(std::string(outcome.message).find(row.message), std::string::npos) << outcome.message;
    EXPECT_LT(outcome.peak_kib, kPeakKibMax);
  }
}

}  // namespace
}  // namespace strata::test
