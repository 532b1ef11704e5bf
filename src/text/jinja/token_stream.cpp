#include "text/jinja/token_stream.h"

namespace strata::text::jinja {

Token TokenStream::take() {
  const Token token = peek();
  if (token.kind != TokenKind::kEnd) ++next_;
  return token;
}

bool TokenStream::take_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  take();
  return true;
}

bool TokenStream::take_name(std::string_view text) {
  if (!is_name(text)) return false;
  take();
  return true;
}

void TokenStream::expect_operator(std::string_view text) {
  if (!take_operator(text)) unexpected(("'" + std::string(text) + "'").c_str());
}

void TokenStream::expect(TokenKind kind, const char* what) {
  if (!is(kind)) unexpected(what);
  take();
}

std::string TokenStream::expect_name(const char* what) {
  if (!is(TokenKind::kName)) unexpected(what);
  return take().text;
}

void TokenStream::unexpected(const char* wanted) const {
  switch (peek().kind) {
    case TokenKind::kEnd: fail_at(at(), "the template ends where {} is expected", wanted);
    case TokenKind::kBlockEnd:
    case TokenKind::kPrintEnd: fail_at(at(), "the tag ends where {} is expected", wanted);
    case TokenKind::kText: fail_at(at(), "text stands where {} is expected", wanted);
    default: fail_at(at(), "'{}' stands where {} is expected", printable(peek().text, kMaxNameBytes), wanted);
  }
}

}  // namespace strata::text::jinja
