// The model's own files, mapped.
#include "base/format.h"
#include "base/page_faults.h"
#include "experts/read_ahead.h"
#include "experts/sources/permanent.h"

namespace strata::experts {
namespace {

class MappedSource final : public PermanentSource {
 public:
  MappedSource(const ExpertLayout& layout, Stats& stats)
      : PermanentSource(layout, stats, Counter::kMappedLeases), read_ahead_(layout) {}
  const char* name() const override { return "mapped"; }

  Status map(const gguf::Model& model) {
    for (const gguf::Shard& shard : model.shards()) {
      ASSIGN_OR_RETURN(auto mapping, shard.file->map());
      if (mapping->bytes().size() < shard.file_bytes) {
        return Error{ErrorCode::kIo, format("{}: the file shrank from {} to {} bytes while it was opened", shard.path,
                                            shard.file_bytes, mapping->bytes().size())};
      }
      mappings_.push_back(std::move(mapping));
      paths_.push_back(shard.path);
    }
    return {};
  }

  size_t hint(std::span<const ExpertKey> keys, HintKind) override { return ask_for_all(keys); }

  // All that is missing of the keys' pages is on its way before the first of them is touched.
  Status fetch(std::span<const ExpertKey> keys, std::span<Lease> leases) override {
    ask_for_all(keys);
    return PermanentSource::fetch(keys, leases);
  }

  Status health() const override {
    for (size_t i = 0; i < mappings_.size(); i++) {
      if (!mappings_[i]->failed()) continue;
      return Error{ErrorCode::kIo, format("{}: the file was cut or became unreadable while its pages were in use; "
                                          "restore it and start again",
                                          paths_[i])};
    }
    return {};
  }

 private:
  size_t ask_for_all(std::span<const ExpertKey> keys) {
    size_t n = 0;
    read_ahead_.note_faults(major_page_faults());
    for (const ExpertKey key : keys) {
      if (!read_ahead_.wanted(key)) continue;
      ask_for(key);
      n++;
    }
    return n;
  }
  void ask_for(ExpertKey key) {
    for (const BlobPart& part : layout_.layer(key.layer).parts) {
      const BlobPart::Place& place = part.places[static_cast<size_t>(key.expert)];
      mappings_[static_cast<size_t>(place.shard)]->will_need(place.offset, part.bytes);
    }
    stats_.add(Counter::kMappedReadAheads);
  }

  const std::byte* address(ExpertKey key, int part) const override {
    const BlobPart::Place& place =
        layout_.layer(key.layer).parts[static_cast<size_t>(part)].places[static_cast<size_t>(key.expert)];
    return mappings_[static_cast<size_t>(place.shard)]->bytes().data() + place.offset;
  }

  ReadAhead read_ahead_;
  std::vector<std::unique_ptr<Mapping>> mappings_;
  std::vector<std::string> paths_;
};

}  // namespace

Result<std::unique_ptr<ExpertSource>> make_mapped_source(const gguf::Model& model, const ExpertLayout& layout,
                                                         Stats& stats) {
  auto source = std::make_unique<MappedSource>(layout, stats);
  RETURN_IF_ERROR(source->map(model));
  return std::unique_ptr<ExpertSource>(std::move(source));
}

}  // namespace strata::experts
