// Parses expressions, with Jinja's precedence: from loose to tight
//   a if c else b, or, and, not, comparisons and in, + and -, ~, * / // %, **, unary - and +, . [] (), filters and
//   tests
#pragma once

#include <utility>
#include <vector>

#include "text/jinja/expressions.h"
#include "text/jinja/token_stream.h"

namespace strata::text::jinja {

// A node and the height of the tree below it, which is limited: trees are evaluated and freed by recursion.
struct Tree {
  ExpressionPtr node;
  int height = 1;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExpressionPtr parse() { return conditional().node; }
  // One expression, or a tuple without its parentheses.
  ExpressionPtr parse_tuple();
  // What a for statement goes through: as parse_tuple(), but an `if` is not part of it.
  ExpressionPtr parse_iterable();
  // A filter behind a '|' that has been taken, for blocks.
  std::unique_ptr<const FilterNode> parse_block_filter();
  // A call, for call blocks.
  std::unique_ptr<const CallNode> parse_call();

 private:
  class Nesting;
  using Level = Tree (ExpressionParser::*)();
  struct BinaryRow {
    const char* sign;
    BinaryFn apply;
  };

  Tree conditional();
  Tree logic_or();
  Tree logic_and();
  Tree logic_not();
  Tree comparison();
  Tree sum();
  Tree concatenation();
  Tree product();
  Tree power_level();
  Tree unary();
  Tree unary_without_filters();
  Tree primary();
  Tree postfix(Tree tree);
  Tree filters_and_tests(Tree tree);

  template <class... Rows>
  Tree chain(Level operand, const Rows&... rows);
  Tree tuple_of(Level item);
  Tree literal_name(const Token& token);
  Tree string_literal();
  Tree number();
  Tree parenthesized();
  Tree list_literal();
  Tree dict_literal();
  Tree attribute(Tree object);
  Tree subscript(Tree object);
  Tree call_of(Tree callee);
  Tree filter(Tree input);
  Tree test(Tree input);
  std::string dotted_name(const char* what);
  bool starts_test_argument() const;
  bool ends_tuple() const;
  // Arguments in parentheses, whose opening one is next; raises `height` to theirs.
  ArgumentNodes arguments(int& height);
  CompareFn take_comparison();

  template <class T, class... Args>
  Tree make(Position at, int height_below, Args&&... args);

  TokenStream& tokens_;
  int depth_ = 0;
};

}  // namespace strata::text::jinja
