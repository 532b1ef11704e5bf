#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "text/unicode_tables.h"

namespace strata::text {

namespace {

constexpr uint32_t kCodePoints = 0x110000;
constexpr uint32_t kBlock = 256;  // code points

// The ranges as a table of two stages, so that a class costs two loads in any script: the number of a block's
// contents, then the class. Blocks with the same contents share it, which leaves some 60 KiB.
class ClassTable {
 public:
  ClassTable() {
    std::vector<CharClass> classes(kCodePoints, CharClass::kOther);
    for (const CharRange& range : kCharRanges) {
      std::fill(classes.begin() + range.first, classes.begin() + range.last + 1, range.char_class);
    }
    std::map<Contents, uint16_t> numbers;
    for (uint32_t block = 0; block < kCodePoints / kBlock; ++block) {
      Contents contents;
      std::copy_n(classes.begin() + block * kBlock, kBlock, contents.begin());
      const auto [known, added] = numbers.emplace(contents, static_cast<uint16_t>(contents_.size()));
      if (added) contents_.push_back(contents);
      number_of_block_[block] = known->second;
    }
  }

  CharClass at(uint32_t code_point) const {
    return contents_[number_of_block_[code_point / kBlock]][code_point % kBlock];
  }

 private:
  using Contents = std::array<CharClass, kBlock>;
  std::array<uint16_t, kCodePoints / kBlock> number_of_block_;
  std::vector<Contents> contents_;
};

}  // namespace

CharClass char_class(uint32_t code_point) {
  static const ClassTable table;
  return code_point < kCodePoints ? table.at(code_point) : CharClass::kOther;
}

}  // namespace strata::text
