// libFuzzer target: changes header and size of a published arena file, while an engine uses it or afterwards, and has
// another engine open it. Whatever comes, no process ends, and who gets the arena gets the right bytes.
//
// The input is a list of changes. The first byte: 1: an engine uses the file meanwhile. Then for each change a byte
// that says what: below 128, that many bytes of the input go into the header at a 16-bit position; from 128 on, the
// file gets the size of a 32-bit number.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/format.h"
#include "experts/checksum.h"
#include "experts/expert_files.h"
#include "experts/sources/shared_arena.h"

namespace strata {
namespace {

// A violation ends the process, which is how the fuzzer learns of it.
void require(bool condition) {
  if (!condition) std::abort();
}

class Silent final : public experts::shared_arena::Watcher {
 public:
  void step(experts::shared_arena::Step) override {}
  void waiting(uint32_t, int64_t) override {}
  void replaced(experts::shared_arena::Kind) override {}
};

// The model, whose experts' bytes are known, and the path of its arena.
class Rig {
 public:
  Rig() : files_(test::expert_tensors(spec_, test::numbered_parts()), 1),
          model_(gguf::Model::open(files_.path(), files_.system()).value()),
          layout_(experts::ExpertLayout::from_model(*model_, spec_.n_layers, spec_.dim, spec_.ffn, spec_.n_experts)
                      .value()) {
    const auto mapped = make_mapped_source(*model_, layout_, stats_).value();
    checksum_ = source_checksum(*mapped, layout_, threads_).value();
  }
  ~Rig() { ::unlink(path_.c_str()); }

  using Source = Result<std::unique_ptr<experts::SharedArenaSource>>;
  Source open() {
    Silent silent;
    return experts::SharedArenaSource::create({.path = path_,
                                               .model = *model_,
                                               .layout = layout_,
                                               .threads = threads_,
                                               .clock = real_clock(),
                                               .stats = stats_,
                                               .watcher = silent});
  }
  // Whether the bytes are right; a source that knows that they are not says so.
  bool is_right(experts::SharedArenaSource& source) {
    const Result<uint64_t> found = source_checksum(source, layout_, threads_);
    require(found.ok() == source.health().ok());
    return found.ok() && *found == checksum_ && source.published_checksum() == checksum_;
  }
  const std::string& path() const { return path_; }

 private:
  const test::ExpertSpec spec_{.n_layers = 1, .n_experts = 2};
  test::ExpertFiles files_;
  std::unique_ptr<gguf::Model> model_;
  experts::ExpertLayout layout_;
  ThreadPool threads_{{.n_threads = 1}};
  Stats stats_;
  uint64_t checksum_ = 0;
  const std::string path_ = format("/dev/shm/strata-fuzz-{}", ::getpid());
};

template <class T>
T take(std::span<const uint8_t>& input) {
  if (input.size() < sizeof(T)) {
    input = {};
    return 0;
  }
  const auto value = load_le<T>(input.data());
  input = input.subspan(sizeof(T));
  return value;
}

void change_header(SharedFile& file, uint64_t at, std::span<const uint8_t> bytes) {
  if (bytes.empty() || file.size().value().bytes < kSharedPage) return;
  // The time of the change would say at once that the file is not what it was.
  struct stat before {};
  require(::stat(file.path().c_str(), &before) == 0);
  const auto page = file.map_writable(0, kSharedPage).value();
  std::memcpy(page->writable_bytes().data() + at, bytes.data(), bytes.size());
  const timespec times[] = {before.st_atim, before.st_mtim};
  require(::utimensat(AT_FDCWD, file.path().c_str(), times, 0) == 0);
}

void change(const std::string& path, std::span<const uint8_t> input) {
  auto opened = SharedFile::open(path).value();
  require(opened.has_value());
  while (!input.empty()) {
    const auto what = take<uint8_t>(input);
    if (what < 128) {
      const auto at = take<uint16_t>(input);
      const std::span<const uint8_t> bytes = input.first(std::min<size_t>(what, input.size()));
      change_header(*opened, at, bytes);
      input = input.subspan(bytes.size());
    } else {
      // At most 16 MiB, of holes.
      require(::truncate(path.c_str(), take<uint32_t>(input) % (16 * kMiB)) == 0);
    }
  }
}

}  // namespace
}  // namespace strata

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata;
  static Rig rig;
  std::span<const uint8_t> input(data, size);
  const bool in_use = take<uint8_t>(input) == 1;
  ::unlink(rig.path().c_str());
  Rig::Source first = rig.open();
  require(first.ok() && rig.is_right(**first));
  if (!in_use) first = Error{};
  change(rig.path(), input);
  Rig::Source second = rig.open();
  if (second.ok()) {
    require(rig.is_right(**second));
  } else {
    require(second.error().code == ErrorCode::kBadInput);
    require(!second.error().message.empty() && second.error().message.find('\n') == std::string::npos);
  }
  // Who used the file has its bytes, or knows that they are lost.
  if (first.ok()) require(rig.is_right(**first) || !(*first)->health().ok());
  return 0;
}
