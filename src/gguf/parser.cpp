// Header, windows and messages. Entries: entries.cpp; tensor infos: tensor_infos.cpp.
#include "gguf/parser.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/format.h"
#include "gguf/encoding.h"

namespace strata::gguf {
namespace {

constexpr uint64_t kWindowBytes = 256 * kKiB;

}  // namespace

const Value* ParsedFile::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

Result<ParsedFile> parse_file(File& file, const Limits& limits) { return Parser(file, limits).parse(); }

Parser::Parser(File& file, const Limits& limits)
    : file_(file), limits_(limits), readable_(std::min(file.size(), limits.metadata_bytes)) {}

Result<ParsedFile> Parser::parse() && {
  RETURN_IF_ERROR(parse_header());
  for (uint64_t i = 0; i < n_entries_; ++i) RETURN_IF_ERROR(parse_entry(i));
  RETURN_IF_ERROR(check_unique_keys());
  RETURN_IF_ERROR(read_alignment());
  out_.tensors.reserve(n_tensors_);  // check_count has bounded it
  for (uint64_t i = 0; i < n_tensors_; ++i) RETURN_IF_ERROR(parse_tensor(i));
  out_.data_offset = align_up(position_, out_.alignment);
  // Sizes first: a download that stopped is the most common fault, and its message must not be hidden by another.
  RETURN_IF_ERROR(place_tensors());
  RETURN_IF_ERROR(check_truncation());
  RETURN_IF_ERROR(check_unique_names());
  RETURN_IF_ERROR(check_overlaps());
  return std::move(out_);
}

Status Parser::parse_header() {
  if (file_.size() < kHeaderBytes) {
    return fail(ErrorCode::kBadInput, format("file too short: it has {} bytes, the header of a GGUF file has {}",
                                             file_.size(), kHeaderBytes));
  }
  ASSIGN_OR_RETURN(const uint32_t magic, take_number<uint32_t>());
  if (magic != kMagic) return fail(ErrorCode::kBadInput, "not a GGUF file: it does not start with \"GGUF\"");
  ASSIGN_OR_RETURN(out_.version, take_number<uint32_t>());
  RETURN_IF_ERROR(check_version(out_.version));
  ASSIGN_OR_RETURN(n_tensors_, take_number<uint64_t>());
  RETURN_IF_ERROR(check_count("tensors", n_tensors_, kMinTensorBytes, limits_.tensors));
  ASSIGN_OR_RETURN(n_entries_, take_number<uint64_t>());
  return check_count("metadata entries", n_entries_, kMinEntryBytes, kMaxEntries);
}

Status Parser::check_version(uint32_t version) {
  if (version == 2 || version == 3) return {};
  if (version != 0 && (version & 0xffff) == 0) {
    return fail(ErrorCode::kUnsupported,
                format("big-endian file (version field {:#010x}); only little-endian files can be read", version));
  }
  const char* advice = version == 1   ? "obsolete since 2023, convert the model again"
                       : version == 0 ? "there is no such version"
                                      : "newer than this program";
  return fail(ErrorCode::kUnsupported, format("GGUF version {}, expected 2 or 3: {}", version, advice));
}

// A count is bounded by what the rest of the file can hold before it is used as a size.
Status Parser::check_count(const char* what, uint64_t count, uint64_t min_bytes, uint64_t max) {
  if (count > bytes_left() / min_bytes) {
    return fail(ErrorCode::kBadInput, format("header claims {} {}, more than the remaining {} bytes can hold", count,
                                             what, bytes_left()));
  }
  if (count > max) {
    return fail(ErrorCode::kBadInput, format("header claims {} {}, at most {} are allowed here", count, what, max));
  }
  return {};
}

Result<const uint8_t*> Parser::take(uint64_t n) {
  if (n > bytes_left()) {
    return fail(ErrorCode::kBadInput,
                format("file ends too early: {} bytes are needed here, {} are left", n, bytes_left()));
  }
  if (n > readable_ - position_) {
    return fail(ErrorCode::kBadInput, format("metadata of more than {}: this is no model file that can be read",
                                             format_bytes(kMaxMetadataBytes)));
  }
  RETURN_IF_ERROR(fill(position_ + n));
  const uint8_t* data = out_.metadata.data() + position_;
  position_ += n;
  return data;
}

Result<std::string_view> Parser::take_string(uint64_t max_bytes) {
  ASSIGN_OR_RETURN(const uint64_t length, take_number<uint64_t>());
  if (length > bytes_left()) {
    return fail(ErrorCode::kBadInput,
                format("string of {} bytes, but only {} are left in the file", length, bytes_left()));
  }
  if (length > max_bytes) {
    return fail(ErrorCode::kBadInput, format("name of {} bytes, at most {} are allowed", length, max_bytes));
  }
  ASSIGN_OR_RETURN(const uint8_t* data, take(length));
  return std::string_view(reinterpret_cast<const char*>(data), length);
}

// Reads on until `end` (<= readable_) is in the buffer.
Status Parser::fill(uint64_t end) {
  std::vector<uint8_t>& buffer = out_.metadata;
  if (end <= buffer.size()) return {};
  // One reservation of everything that can come: pointers stay valid, growing never copies, and pages that are not
  // reached cost nothing.
  if (buffer.capacity() < readable_) buffer.reserve(readable_);
  const uint64_t begin = buffer.size();
  const uint64_t window_end = std::max(end, std::min(begin + kWindowBytes, readable_));
  buffer.resize(window_end);
  return file_.read_exact(begin, std::as_writable_bytes(std::span(buffer).subspan(begin)));
}

Error Parser::fail_at(const Where& where, ErrorCode code, const std::string& text) const {
  std::string message = format("{}: byte {}: ", printable(file_.path(), kMaxPathPrinted), where.position);
  if (where.part != Part::kHeader) {
    message += format("{} {}", where.part == Part::kEntry ? "metadata entry" : "tensor", where.index);
    if (!where.name.empty()) message += format(" '{}'", printable(where.name));
    message += ": ";
  }
  return {code, message + text};
}

}  // namespace strata::gguf
