// The tokens of a template as the parsers read them, and the names they meet.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/jinja/runtime.h"

namespace strata::text::jinja {

// Addresses stay; equal names have the same.
using NamePool = std::unordered_set<std::string>;

class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, NamePool& names) : tokens_(std::move(tokens)), names_(names) {}

  const Token& peek() const { return tokens_[next_]; }
  // The token behind peek(); the last one stays the last.
  const Token& peek_behind() const { return tokens_[std::min(next_ + 1, tokens_.size() - 1)]; }
  Token take();
  Position at() const { return peek().at; }

  bool is(TokenKind kind) const { return peek().kind == kind; }
  bool is_operator(std::string_view text) const { return is(TokenKind::kOperator) && peek().text == text; }
  bool is_name(std::string_view text) const { return is(TokenKind::kName) && peek().text == text; }
  bool take_operator(std::string_view text);  // false, and nothing taken, when it is something else
  bool take_name(std::string_view text);
  void expect_operator(std::string_view text);
  void expect(TokenKind kind, const char* what);
  std::string expect_name(const char* what);  // any name; `what` for the message
  Name intern(const std::string& name) { return &*names_.insert(name).first; }

  [[noreturn]] void unexpected(const char* wanted) const;

  // varargs and kwargs belong to a macro only if its body reads them.
  struct MacroReads {
    bool varargs = false, kwargs = false;
  };
  MacroReads macro_reads;

 private:
  const std::vector<Token> tokens_;
  size_t next_ = 0;
  NamePool& names_;
};

}  // namespace strata::text::jinja
