#include "text/spm.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/format.h"
#include "text/utf8.h"

namespace strata::text {

namespace {

constexpr char kScoresKey[] = "tokenizer.ggml.scores";
constexpr uint32_t kEnd = UINT32_MAX;

bool is_mergeable(TokenType type) { return is_plain(type) || type == TokenType::kUnused; }

}  // namespace

// The segmentation of one text.
class SpmPieces::Run {
 public:
  Run(const SpmPieces& pieces, std::string_view text) : pieces_(pieces), text_(text) {}

  Status encode(std::vector<int32_t>& ids) {
    begin_as_characters();
    for (uint32_t i = 0; i < symbols_.size(); ++i) push_pair(i);
    merge_all();
    for (uint32_t i = 0; i != kEnd; i = symbols_[i].next) RETURN_IF_ERROR(append(symbols_[i].slice, ids));
    return {};
  }

 private:
  struct Slice {
    uint32_t begin, size;  // bytes of the text
  };
  struct Symbol {
    Slice slice;  // size 0 once merged into its left neighbour
    uint32_t prev, next;
  };
  struct Pair {
    float score;
    uint32_t left;  // index of the left symbol
    uint32_t size;  // bytes of both
    int32_t id;     // the token they make
  };

  // Order of the heap: the highest score on top, among equals the leftmost.
  static bool comes_later(const Pair& a, const Pair& b) {
    return a.score != b.score ? a.score < b.score : a.left > b.left;
  }

  void begin_as_characters() {
    symbols_.reserve(text_.size());
    for (uint32_t at = 0; at < text_.size();) {
      const uint32_t length = utf8_char(text_.data() + at).length;
      const auto index = static_cast<uint32_t>(symbols_.size());
      symbols_.push_back({{at, length}, index == 0 ? kEnd : index - 1, index + 1});
      at += length;
    }
    if (!symbols_.empty()) symbols_.back().next = kEnd;
  }

  std::string_view view(Slice slice) const { return text_.substr(slice.begin, slice.size); }

  void push_pair(uint32_t left) {
    const Symbol& symbol = symbols_[left];
    if (symbol.next == kEnd) return;
    const Slice both = {symbol.slice.begin, symbol.slice.size + symbols_[symbol.next].slice.size};
    const int32_t id = pieces_.mergeable(view(both));
    if (id == kNoToken) return;
    heap_.push_back({pieces_.scores_[static_cast<size_t>(id)], left, both.size, id});
    std::push_heap(heap_.begin(), heap_.end(), comes_later);
  }

  // A pair on the heap is stale once one of its symbols was merged away or has grown: the size of both tells.
  void merge_all() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), comes_later);
      const Pair pair = heap_.back();
      heap_.pop_back();
      Symbol& left = symbols_[pair.left];
      if (left.slice.size == 0 || left.next == kEnd) continue;
      Symbol& right = symbols_[left.next];
      if (left.slice.size + right.slice.size != pair.size) continue;
      if (pieces_.vocabulary_->type(pair.id) == TokenType::kUnused) {
        parts_of_unused_.emplace(key({left.slice.begin, pair.size}), left.slice.size);
      }
      left.slice.size = pair.size;
      left.next = right.next;
      right.slice.size = 0;
      if (left.next != kEnd) symbols_[left.next].prev = pair.left;
      push_pair(pair.left);
      if (left.prev != kEnd) push_pair(left.prev);
    }
  }

  // What is no token to be made was an unused one, which falls apart, or is a character. Unused ones may be made of
  // unused ones to any depth, so the parts wait on a stack of our own.
  Status append(Slice whole, std::vector<int32_t>& ids) {
    waiting_.push_back(whole);
    while (!waiting_.empty()) {
      const Slice slice = waiting_.back();
      waiting_.pop_back();
      const int32_t id = pieces_.mergeable(view(slice));
      if (id != kNoToken && is_plain(pieces_.vocabulary_->type(id))) {
        ids.push_back(id);
      } else if (const auto parts = parts_of_unused_.find(key(slice)); parts != parts_of_unused_.end()) {
        const uint32_t left = parts->second;
        waiting_.push_back({slice.begin + left, slice.size - left});
        waiting_.push_back({slice.begin, left});
      } else {
        RETURN_IF_ERROR(pieces_.append_character(view(slice), ids));
      }
    }
    return {};
  }

  static uint64_t key(Slice slice) { return uint64_t{slice.begin} << 32 | slice.size; }

  const SpmPieces& pieces_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::vector<Pair> heap_;
  std::vector<Slice> waiting_;  // of append
  // By slice that was merged to an unused token: bytes of its left part.
  std::unordered_map<uint64_t, uint32_t> parts_of_unused_;
};

Result<SpmPieces> SpmPieces::load(const gguf::Model& model, std::shared_ptr<const Vocabulary> vocabulary,
                                  int32_t unknown) {
  SpmPieces made;
  made.vocabulary_ = std::move(vocabulary);
  made.unknown_ = unknown;
  RETURN_IF_ERROR(made.load_scores(model));
  made.find_bytes();
  for (int32_t id = 0; id < made.vocabulary_->size(); ++id) {
    if (is_mergeable(made.vocabulary_->type(id))) {
      made.longest_ = std::max(made.longest_, made.vocabulary_->text(id).size());
    }
  }
  return made;
}

// That the array is one of f32 and as long as the vocabulary was checked with the other parallel arrays.
Status SpmPieces::load_scores(const gguf::Model& model) {
  const gguf::Value* value = model.find(kScoresKey);
  if (value == nullptr) {
    return Error{ErrorCode::kBadInput, format("{}: {} is missing; a SentencePiece vocabulary can't do without",
                                              model.path(), kScoresKey)};
  }
  scores_.resize(static_cast<size_t>(vocabulary_->size()));
  for (size_t id = 0; id < scores_.size(); ++id) {
    ASSIGN_OR_RETURN(const double score, value->as_float(id));
    if (std::isnan(score)) {
      return Error{ErrorCode::kBadInput, format("{}: {}[{}] is not a number", model.path(), kScoresKey, id)};
    }
    scores_[id] = static_cast<float>(score);
  }
  return {};
}

void SpmPieces::find_bytes() {
  for (int byte = 0; byte < 256; ++byte) {
    const int32_t id = vocabulary_->find(format("<0x{:02X}>", byte));
    const bool fits = id != kNoToken && (vocabulary_->type(id) == TokenType::kByte || is_plain(vocabulary_->type(id)));
    byte_ids_[static_cast<size_t>(byte)] = fits ? id : kNoToken;
  }
}

int32_t SpmPieces::mergeable(std::string_view text) const {
  if (text.size() > longest_) return kNoToken;
  const int32_t id = vocabulary_->find(text);
  return id != kNoToken && is_mergeable(vocabulary_->type(id)) ? id : kNoToken;
}

Status SpmPieces::append_character(std::string_view character, std::vector<int32_t>& ids) const {
  const auto id_of = [this](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
  const bool complete =
      std::all_of(character.begin(), character.end(), [&](char byte) { return id_of(byte) != kNoToken; });
  if (complete) {
    for (const char byte : character) ids.push_back(id_of(byte));
    return {};
  }
  if (unknown_ == kNoToken) {
    return Error{ErrorCode::kBadInput,
                 format("the text can't be tokenised: the model's vocabulary has no token for \"{}\", for its bytes or "
                        "for the unknown",
                        printable(character))};
  }
  ids.push_back(unknown_);
  return {};
}

Status SpmPieces::encode(std::string_view text, std::vector<int32_t>& ids) const {
  ASSERT(text.size() < kEnd);
  if (text.empty()) return {};
  return Run(*this, text).encode(ids);
}

}  // namespace strata::text
