#include "text/bpe.h"

#include <algorithm>

#include "base/format.h"
#include "text/byte_alphabet.h"

namespace strata::text {

namespace {

constexpr char kMergesKey[] = "tokenizer.ggml.merges";
constexpr int32_t kGone = -1;
constexpr uint32_t kEnd = UINT32_MAX;

bool is_producible(TokenType type) {
  return type == TokenType::kNormal || type == TokenType::kUserDefined || type == TokenType::kByte;
}

// Order of the heap: the lowest rank on top, among equals the leftmost.
bool comes_later(const BpeScratch::Pair& a, const BpeScratch::Pair& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
}

}  // namespace

class BpeMerges::Loader {
 public:
  Loader(const gguf::Model& model, const Vocabulary& vocabulary) : model_(model), vocabulary_(vocabulary) {}

  Result<BpeMerges> load() {
    for (int byte = 0; byte < 256; ++byte) {
      made_.byte_symbols_[static_cast<size_t>(byte)] = symbol(byte_character(static_cast<uint8_t>(byte)));
    }
    RETURN_IF_ERROR(read_merges());
    sort_merges();
    made_.producible_.resize(static_cast<size_t>(vocabulary_.size()));
    for (int32_t id = 0; id < vocabulary_.size(); ++id) {
      made_.producible_[static_cast<size_t>(id)] = is_producible(vocabulary_.type(id));
    }
    return std::move(made_);
  }

 private:
  Status read_merges() {
    const gguf::Value* value = model_.find(kMergesKey);
    if (value == nullptr) return bad("is missing; byte-level BPE can't do without");
    if (!value->is_array() || value->element_type() != gguf::ValueType::kString) {
      return bad("is not an array of strings");
    }
    if (value->count() > kMaxMerges) {
      return bad(format("has {} entries; at most {} are possible", value->count(), kMaxMerges));
    }
    ASSIGN_OR_RETURN(const std::vector<std::string_view> lines, value->strings());
    made_.merges_.reserve(lines.size());
    std::string joined;
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string_view line = lines[i];
      const size_t space = line.find(' ', 1);
      if (space == std::string_view::npos || space + 1 == line.size()) {
        return bad(format("[{}] is not two parts with a space between them: \"{}\"", i, printable(line)), "");
      }
      const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
      joined.assign(left).append(right);
      made_.merges_.push_back({symbol(left), symbol(right), static_cast<uint32_t>(i), symbol(joined)});
    }
    return {};
  }

  // A pair that is listed twice keeps its first rank.
  void sort_merges() {
    std::vector<Merge>& merges = made_.merges_;
    const auto pair_of = [](const Merge& m) { return std::pair(m.left, m.right); };
    std::sort(merges.begin(), merges.end(), [&](const Merge& a, const Merge& b) {
      return pair_of(a) != pair_of(b) ? pair_of(a) < pair_of(b) : a.rank < b.rank;
    });
    merges.erase(std::unique(merges.begin(), merges.end(),
                             [&](const Merge& a, const Merge& b) { return pair_of(a) == pair_of(b); }),
                 merges.end());
    const size_t n_symbols = static_cast<size_t>(vocabulary_.size()) + tokenless_.size();
    made_.first_of_left_.assign(n_symbols + 1, 0);
    for (const Merge& merge : merges) ++made_.first_of_left_[static_cast<size_t>(merge.left) + 1];
    for (size_t s = 0; s < n_symbols; ++s) made_.first_of_left_[s + 1] += made_.first_of_left_[s];
  }

  int32_t symbol(std::string_view text) {
    if (const int32_t id = vocabulary_.find(text); id != kNoToken) return id;
    const auto next = static_cast<int32_t>(static_cast<size_t>(vocabulary_.size()) + tokenless_.size());
    return tokenless_.emplace(text, next).first->second;
  }

  Error bad(const std::string& what, const char* gap = " ") const {
    return Error{ErrorCode::kBadInput, format("{}: {}{}{}", model_.path(), kMergesKey, gap, what)};
  }

  const gguf::Model& model_;
  const Vocabulary& vocabulary_;
  std::unordered_map<std::string, int32_t> tokenless_;  // symbols that are no tokens
  BpeMerges made_;
};

Result<BpeMerges> BpeMerges::load(const gguf::Model& model, const Vocabulary& vocabulary) {
  return Loader(model, vocabulary).load();
}

const BpeMerges::Merge* BpeMerges::find(int32_t left, int32_t right) const {
  const Merge* begin = merges_.data() + first_of_left_[static_cast<size_t>(left)];
  const Merge* end = merges_.data() + first_of_left_[static_cast<size_t>(left) + 1];
  const Merge* found =
      std::lower_bound(begin, end, right, [](const Merge& merge, int32_t value) { return merge.right < value; });
  return found != end && found->right == right ? found : nullptr;
}

void BpeMerges::push_pair(BpeScratch& scratch, uint32_t left) const {
  const BpeScratch::Symbol& symbol = scratch.symbols[left];
  if (symbol.next == kEnd) return;
  const int32_t right_id = scratch.symbols[symbol.next].id;
  const Merge* merge = find(symbol.id, right_id);
  if (merge == nullptr) return;
  scratch.heap.push_back({merge->rank, left, symbol.id, right_id, merge->merged});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), comes_later);
}

// A pair on the heap is stale once one of its symbols was merged away or has grown: the ids tell.
void BpeMerges::merge_all(BpeScratch& scratch) const {
  std::vector<BpeScratch::Symbol>& symbols = scratch.symbols;
  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), comes_later);
    const BpeScratch::Pair pair = scratch.heap.back();
    scratch.heap.pop_back();
    BpeScratch::Symbol& left = symbols[pair.left];
    if (left.id != pair.left_id || left.next == kEnd || symbols[left.next].id != pair.right_id) continue;
    BpeScratch::Symbol& right = symbols[left.next];
    left.id = pair.merged_id;
    left.next = right.next;
    right.id = kGone;
    if (left.next != kEnd) symbols[left.next].prev = pair.left;
    push_pair(scratch, pair.left);
    if (left.prev != kEnd) push_pair(scratch, left.prev);
  }
}

int32_t BpeMerges::token_of(int32_t symbol) const {
  const auto id = static_cast<size_t>(symbol);
  return id < producible_.size() && producible_[id] ? symbol : kNoToken;
}

Status BpeMerges::append_bytes(std::string_view bytes, std::vector<int32_t>& ids) const {
  for (const char byte : bytes) {
    const auto value = static_cast<uint8_t>(byte);
    const int32_t id = token_of(byte_symbols_[value]);
    if (id == kNoToken) {
      return Error{ErrorCode::kBadInput,
                   format("the text can't be tokenised: the model's vocabulary has no token for byte 0x{:02X}", value)};
    }
    ids.push_back(id);
  }
  return {};
}

Status BpeMerges::encode_word(std::string_view word, BpeScratch& scratch, std::vector<int32_t>& ids) const {
  ASSERT(word.size() < kEnd);
  if (word.empty()) return {};
  const auto n = static_cast<uint32_t>(word.size());
  scratch.symbols.clear();
  scratch.heap.clear();
  for (uint32_t i = 0; i < n; ++i) {
    const int32_t id = byte_symbols_[static_cast<uint8_t>(word[i])];
    scratch.symbols.push_back({id, i, i == 0 ? kEnd : i - 1, i + 1 == n ? kEnd : i + 1});
  }
  for (uint32_t i = 0; i < n; ++i) push_pair(scratch, i);
  merge_all(scratch);

  for (uint32_t i = 0; i != kEnd; i = scratch.symbols[i].next) {
    const BpeScratch::Symbol& symbol = scratch.symbols[i];
    if (const int32_t id = token_of(symbol.id); id != kNoToken) {
      ids.push_back(id);
      continue;
    }
    const uint32_t end = symbol.next == kEnd ? n : scratch.symbols[symbol.next].begin;
    RETURN_IF_ERROR(append_bytes(word.substr(symbol.begin, end - symbol.begin), ids));
  }
  return {};
}

}  // namespace strata::text
