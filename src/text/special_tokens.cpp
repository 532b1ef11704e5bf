#include "text/special_tokens.h"

#include <algorithm>
#include <numeric>

#include "base/format.h"

namespace strata::text {

namespace {

bool is_candidate(TokenType type, bool parse_special) {
  if (type == TokenType::kUserDefined) return true;
  return parse_special && (type == TokenType::kControl || type == TokenType::kUnknown);
}

size_t first_byte(std::string_view text) { return static_cast<unsigned char>(text[0]); }

}  // namespace

Result<SpecialTokens> SpecialTokens::create(const Vocabulary& vocabulary, bool parse_special) {
  SpecialTokens made;
  std::vector<Candidate>& all = made.candidates_;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (!is_candidate(vocabulary.type(id), parse_special)) continue;
    const std::string_view text = vocabulary.text(id);
    if (text.size() > kMaxSpecialBytes) {
      return Error{ErrorCode::kUnsupported,
                   format("tokenizer.ggml.tokens[{}] is a special token of {} bytes; at most {} are supported", id,
                          text.size(), kMaxSpecialBytes)};
    }
    all.push_back({text, id, 0, -1});
  }

  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.text.size() > b.text.size(); });
  for (size_t i = 0; i < all.size(); ++i) all[i].order = static_cast<uint32_t>(i);
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.text < b.text; });

  for (size_t i = 0; i < all.size(); ++i) {
    ++made.first_of_byte_[first_byte(all[i].text) + 1];
    // In sorted order, what a text begins with stands before it, and on the chain of its neighbour.
    int32_t shorter = static_cast<int32_t>(i) - 1;
    while (shorter >= 0 && !all[i].text.starts_with(all[static_cast<size_t>(shorter)].text)) {
      shorter = all[static_cast<size_t>(shorter)].shorter;
    }
    all[i].shorter = shorter;
  }
  std::partial_sum(made.first_of_byte_.begin(), made.first_of_byte_.end(), made.first_of_byte_.begin());
  return made;
}

// The longest candidate that `rest` begins with, or -1: it is the last candidate that sorts before or at `rest`, or on
// the chain of shorter ones from there.
int32_t SpecialTokens::longest_at(std::string_view rest) const {
  const size_t byte = first_byte(rest);
  const auto begin = candidates_.begin() + first_of_byte_[byte], end = candidates_.begin() + first_of_byte_[byte + 1];
  if (begin == end) return -1;
  rest = rest.substr(0, kMaxSpecialBytes);
  const auto after = std::upper_bound(begin, end, rest,
                                      [](std::string_view value, const Candidate& c) { return value < c.text; });
  int32_t found = after == begin ? -1 : static_cast<int32_t>(after - candidates_.begin()) - 1;
  while (found >= 0 && !rest.starts_with(candidates_[static_cast<size_t>(found)].text)) {
    found = candidates_[static_cast<size_t>(found)].shorter;
  }
  return found;
}

std::vector<SpecialTokens::Hit> SpecialTokens::longest_hits(std::string_view text) const {
  std::vector<Hit> hits;
  for (size_t i = 0; i < text.size(); ++i) {
    const int32_t found = longest_at(text.substr(i));
    if (found < 0) continue;
    hits.push_back({candidates_[static_cast<size_t>(found)].order, static_cast<uint32_t>(i), found});
  }
  return hits;
}

// Takes hits in the order of trying, then from the left. A hit that runs into a taken place gives way to the next
// shorter candidate at its position. Taken places are never shorter than a later hit, so looking at the two ends of a
// hit is enough to see whether it is free.
std::vector<SpecialTokens::Place> SpecialTokens::places(std::string_view text) const {
  const auto later = [](const Hit& a, const Hit& b) {
    return a.order != b.order ? a.order > b.order : a.position > b.position;
  };
  std::vector<Hit> heap = longest_hits(text);
  std::vector<Place> taken;
  if (heap.empty()) return taken;
  std::make_heap(heap.begin(), heap.end(), later);
  std::vector<bool> covered(text.size(), false);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Hit hit = heap.back();
    heap.pop_back();
    if (covered[hit.position]) continue;
    const Candidate& candidate = candidates_[static_cast<size_t>(hit.candidate)];
    if (!covered[hit.position + candidate.text.size() - 1]) {
      std::fill_n(covered.begin() + hit.position, candidate.text.size(), true);
      taken.push_back({hit.position, hit.candidate});
    } else if (candidate.shorter >= 0) {
      const Candidate& shorter = candidates_[static_cast<size_t>(candidate.shorter)];
      heap.push_back({shorter.order, hit.position, candidate.shorter});
      std::push_heap(heap.begin(), heap.end(), later);
    }
  }
  std::sort(taken.begin(), taken.end(), [](const Place& a, const Place& b) { return a.position < b.position; });
  return taken;
}

std::vector<Fragment> SpecialTokens::split(std::string_view text) const {
  std::vector<Fragment> fragments;
  size_t done = 0;
  for (const Place& place : places(text)) {
    const Candidate& candidate = candidates_[static_cast<size_t>(place.candidate)];
    if (place.position > done) fragments.push_back({kNoToken, text.substr(done, place.position - done)});
    fragments.push_back({candidate.id, text.substr(place.position, candidate.text.size())});
    done = place.position + candidate.text.size();
  }
  if (done < text.size()) fragments.push_back({kNoToken, text.substr(done)});
  return fragments;
}

}  // namespace strata::text
