#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>

#include "text/jinja/operators.h"

namespace strata::text::jinja {

// Counts how deep the parser has recursed.
class ExpressionParser::Nesting {
 public:
  explicit Nesting(ExpressionParser& parser) : parser_(parser) {
    if (++parser.depth_ > kMaxNesting) {
      fail_at(parser.tokens_.at(), "expressions are nested more than {} deep", kMaxNesting);
    }
  }
  ~Nesting() { --parser_.depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  ExpressionParser& parser_;
};

template <class T, class... Args>
Tree ExpressionParser::make(Position at, int height_below, Args&&... args) {
  if (height_below >= kMaxNesting) fail_at(at, "an expression has more than {} operations one on another", kMaxNesting);
  return {std::make_unique<T>(at, std::forward<Args>(args)...), height_below + 1};
}

bool ExpressionParser::ends_tuple() const {
  return tokens_.is(TokenKind::kPrintEnd) || tokens_.is(TokenKind::kBlockEnd) || tokens_.is_operator(")") ||
         tokens_.is_operator("=") || tokens_.is_name("in");
}

Tree ExpressionParser::tuple_of(Level item) {
  const Position at = tokens_.at();
  Tree first = (this->*item)();
  if (!tokens_.is_operator(",")) return first;
  int height = first.height;
  std::vector<ExpressionPtr> items;
  items.push_back(std::move(first.node));
  while (tokens_.take_operator(",") && !ends_tuple()) {
    Tree next = (this->*item)();
    height = std::max(height, next.height);
    items.push_back(std::move(next.node));
  }
  return make<ListNode>(at, height, std::move(items), true);
}

ExpressionPtr ExpressionParser::parse_tuple() { return tuple_of(&ExpressionParser::conditional).node; }
ExpressionPtr ExpressionParser::parse_iterable() { return tuple_of(&ExpressionParser::logic_or).node; }

std::unique_ptr<const FilterNode> ExpressionParser::parse_block_filter() {
  const Position at = tokens_.at();
  std::string name = dotted_name("the name of a filter");
  int height = 0;
  ArgumentNodes given;
  if (tokens_.is_operator("(")) given = arguments(height);
  return std::make_unique<FilterNode>(at, nullptr, std::move(name), std::move(given));
}

std::unique_ptr<const CallNode> ExpressionParser::parse_call() {
  const Position at = tokens_.at();
  Tree tree = postfix(primary());
  if (dynamic_cast<const CallNode*>(tree.node.get()) == nullptr) fail_at(at, "a call block needs a call");
  return std::unique_ptr<const CallNode>(static_cast<const CallNode*>(tree.node.release()));
}

Tree ExpressionParser::conditional() {
  const Nesting nesting(*this);
  Tree tree = logic_or();
  while (tokens_.is_name("if")) {
    const Position at = tokens_.take().at;
    Tree condition = logic_or();
    Tree otherwise{nullptr, 0};
    if (tokens_.take_name("else")) otherwise = conditional();
    const int height = std::max({tree.height, condition.height, otherwise.height});
    tree =
        make<ConditionalNode>(at, height, std::move(condition.node), std::move(tree.node), std::move(otherwise.node));
  }
  return tree;
}

Tree ExpressionParser::logic_or() {
  Tree left = logic_and();
  while (tokens_.is_name("or")) {
    const Position at = tokens_.take().at;
    Tree right = logic_and();
    const int height = std::max(left.height, right.height);
    left = make<LogicNode>(at, height, true, std::move(left.node), std::move(right.node));
  }
  return left;
}

Tree ExpressionParser::logic_and() {
  Tree left = logic_not();
  while (tokens_.is_name("and")) {
    const Position at = tokens_.take().at;
    Tree right = logic_not();
    const int height = std::max(left.height, right.height);
    left = make<LogicNode>(at, height, false, std::move(left.node), std::move(right.node));
  }
  return left;
}

Tree ExpressionParser::logic_not() {
  if (!tokens_.is_name("not")) return comparison();
  const Nesting nesting(*this);
  const Position at = tokens_.take().at;
  Tree operand = logic_not();
  return make<UnaryNode>(at, operand.height, logical_not, std::move(operand.node));
}

CompareFn ExpressionParser::take_comparison() {
  static constexpr std::pair<const char*, CompareFn> kSigns[] = {
      {"==", is_equal}, {"!=", is_not_equal}, {"<", is_less},
      {"<=", is_less_or_equal}, {">", is_greater}, {">=", is_greater_or_equal},
  };
  for (const auto& [sign, compare_fn] : kSigns) {
    if (tokens_.take_operator(sign)) return compare_fn;
  }
  if (tokens_.take_name("in")) return is_in;
  if (tokens_.is_name("not") && tokens_.peek_behind().kind == TokenKind::kName && tokens_.peek_behind().text == "in") {
    tokens_.take();
    tokens_.take();
    return is_not_in;
  }
  return nullptr;
}

Tree ExpressionParser::comparison() {
  Tree first = sum();
  const Position at = tokens_.at();
  int height = first.height;
  CompareNode::Links links;
  while (const CompareFn compare_fn = take_comparison()) {
    Tree next = sum();
    height = std::max(height, next.height);
    links.emplace_back(compare_fn, std::move(next.node));
  }
  if (links.empty()) return first;
  return make<CompareNode>(at, height, std::move(first.node), std::move(links));
}

// a + b - c: operands one level tighter, joined from the left.
template <class... Rows>
Tree ExpressionParser::chain(Level operand, const Rows&... rows) {
  Tree left = (this->*operand)();
  for (;;) {
    const Position at = tokens_.at();
    BinaryFn apply = nullptr;
    ((apply == nullptr && tokens_.take_operator(rows.sign) ? void(apply = rows.apply) : void()), ...);
    if (apply == nullptr) return left;
    Tree right = (this->*operand)();
    const int height = std::max(left.height, right.height);
    left = make<BinaryNode>(at, height, apply, std::move(left.node), std::move(right.node));
  }
}

Tree ExpressionParser::sum() {
  return chain(&ExpressionParser::concatenation, BinaryRow{"+", add}, BinaryRow{"-", subtract});
}
Tree ExpressionParser::concatenation() { return chain(&ExpressionParser::product, BinaryRow{"~", concatenate}); }
Tree ExpressionParser::product() {
  return chain(&ExpressionParser::power_level, BinaryRow{"*", multiply}, BinaryRow{"/", divide},
               BinaryRow{"//", floor_divide}, BinaryRow{"%", modulo});
}
Tree ExpressionParser::power_level() { return chain(&ExpressionParser::unary, BinaryRow{"**", power}); }

Tree ExpressionParser::unary() { return filters_and_tests(unary_without_filters()); }

Tree ExpressionParser::unary_without_filters() {
  if (!tokens_.is_operator("-") && !tokens_.is_operator("+")) return postfix(primary());
  const Nesting nesting(*this);
  const Token sign = tokens_.take();
  Tree operand = unary_without_filters();
  return make<UnaryNode>(sign.at, operand.height, sign.text == "-" ? negate : unary_plus, std::move(operand.node));
}

Tree ExpressionParser::primary() {
  switch (tokens_.peek().kind) {
    case TokenKind::kName: return literal_name(tokens_.take());
    case TokenKind::kString: return string_literal();
    case TokenKind::kInteger:
    case TokenKind::kFloat: return number();
    default: break;
  }
  if (tokens_.is_operator("(")) return parenthesized();
  if (tokens_.is_operator("[")) return list_literal();
  if (tokens_.is_operator("{")) return dict_literal();
  tokens_.unexpected("an expression");
}

Tree ExpressionParser::literal_name(const Token& token) {
  const std::string& name = token.text;
  if (name == "true" || name == "True") return make<Literal>(token.at, 0, Value::boolean(true));
  if (name == "false" || name == "False") return make<Literal>(token.at, 0, Value::boolean(false));
  if (name == "none" || name == "None") return make<Literal>(token.at, 0, Value::null());
  tokens_.macro_reads.varargs |= name == "varargs";
  tokens_.macro_reads.kwargs |= name == "kwargs";
  return make<NameNode>(token.at, 0, tokens_.intern(name));
}

Tree ExpressionParser::string_literal() {
  const Position at = tokens_.at();
  std::string text;
  while (tokens_.is(TokenKind::kString)) text += tokens_.take().text;
  return make<StringNode>(at, 0, std::move(text));
}

Tree ExpressionParser::number() {
  const Token token = tokens_.take();
  std::string digits = token.text;
  std::erase(digits, '_');
  const char* begin = digits.data();
  const char* const end = begin + digits.size();
  if (token.kind == TokenKind::kFloat) {
    double value = 0;
    const auto result = std::from_chars(begin, end, value);
    if (result.ec != std::errc() || result.ptr != end) fail_at(token.at, "{} is not a number that fits", token.text);
    return make<Literal>(token.at, 0, Value::number(value));
  }
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && digits[1] > '9') {
    base = (digits[1] | 0x20) == 'x' ? 16 : (digits[1] | 0x20) == 'o' ? 8 : 2;
    begin += 2;
  }
  int64_t value = 0;
  const auto result = std::from_chars(begin, end, value, base);
  if (result.ec != std::errc() || result.ptr != end) {
    fail_at(token.at, "{} is not an integer that fits 64 bits", printable(token.text, kMaxNameBytes));
  }
  return make<Literal>(token.at, 0, Value::integer(value));
}

Tree ExpressionParser::parenthesized() {
  const Position at = tokens_.take().at;
  if (tokens_.take_operator(")")) return make<ListNode>(at, 0, std::vector<ExpressionPtr>(), true);
  Tree tree = tuple_of(&ExpressionParser::conditional);
  tokens_.expect_operator(")");
  return tree;
}

Tree ExpressionParser::list_literal() {
  const Position at = tokens_.take().at;
  int height = 0;
  std::vector<ExpressionPtr> items;
  while (!tokens_.take_operator("]")) {
    if (!items.empty()) {
      tokens_.expect_operator(",");
      if (tokens_.take_operator("]")) break;
    }
    Tree item = conditional();
    height = std::max(height, item.height);
    items.push_back(std::move(item.node));
  }
  return make<ListNode>(at, height, std::move(items), false);
}

Tree ExpressionParser::dict_literal() {
  const Position at = tokens_.take().at;
  int height = 0;
  DictNode::Entries entries;
  while (!tokens_.take_operator("}")) {
    if (!entries.empty()) {
      tokens_.expect_operator(",");
      if (tokens_.take_operator("}")) break;
    }
    Tree key = conditional();
    tokens_.expect_operator(":");
    Tree value = conditional();
    height = std::max({height, key.height, value.height});
    entries.emplace_back(std::move(key.node), std::move(value.node));
  }
  return make<DictNode>(at, height, std::move(entries));
}

Tree ExpressionParser::postfix(Tree tree) {
  for (;;) {
    if (tokens_.is_operator(".")) {
      tree = attribute(std::move(tree));
    } else if (tokens_.is_operator("[")) {
      tree = subscript(std::move(tree));
    } else if (tokens_.is_operator("(")) {
      tree = call_of(std::move(tree));
    } else {
      return tree;
    }
  }
}

Tree ExpressionParser::attribute(Tree object) {
  const Position at = tokens_.take().at;
  if (tokens_.is(TokenKind::kInteger)) {
    Tree index = number();
    return make<ItemNode>(at, object.height, std::move(object.node), std::move(index.node));
  }
  std::string name = tokens_.expect_name("the name of an attribute");
  return make<AttributeNode>(at, object.height, std::move(object.node), std::move(name));
}

Tree ExpressionParser::subscript(Tree object) {
  const Position at = tokens_.take().at;
  int height = object.height;
  ExpressionPtr parts[3];
  bool is_slice = false;
  for (int part = 0;; ++part) {
    if (!tokens_.is_operator(":") && !tokens_.is_operator("]")) {
      Tree tree = part == 0 ? tuple_of(&ExpressionParser::conditional) : conditional();
      height = std::max(height, tree.height);
      parts[part] = std::move(tree.node);
    }
    if (part == 2 || !tokens_.take_operator(":")) break;
    is_slice = true;
  }
  if (!is_slice && parts[0] == nullptr) tokens_.unexpected("an index");
  tokens_.expect_operator("]");
  if (!is_slice) return make<ItemNode>(at, height, std::move(object.node), std::move(parts[0]));
  return make<SliceNode>(at, height, std::move(object.node),
                         SliceNode::Bounds{std::move(parts[0]), std::move(parts[1]), std::move(parts[2])});
}

Tree ExpressionParser::call_of(Tree callee) {
  const Position at = tokens_.at();
  int height = callee.height;
  ArgumentNodes given = arguments(height);
  return make<CallNode>(at, height, std::move(callee.node), std::move(given));
}

ArgumentNodes ExpressionParser::arguments(int& height) {
  ArgumentNodes out;
  const auto next = [&] {
    Tree tree = conditional();
    height = std::max(height, tree.height);
    return std::move(tree.node);
  };
  tokens_.expect_operator("(");
  for (bool first = true; !tokens_.take_operator(")"); first = false) {
    if (!first) {
      tokens_.expect_operator(",");
      if (tokens_.take_operator(")")) break;
    }
    const Token& behind = tokens_.peek_behind();
    if (tokens_.is_operator("*") && out.more_positional == nullptr) {
      tokens_.take();
      out.more_positional = next();
    } else if (tokens_.is_operator("**") && out.more_named == nullptr) {
      tokens_.take();
      out.more_named = next();
    } else if (tokens_.is(TokenKind::kName) && behind.kind == TokenKind::kOperator && behind.text == "=") {
      std::string name = tokens_.take().text;
      tokens_.take();
      out.named.emplace_back(std::move(name), next());
    } else if (out.named.empty() && out.more_named == nullptr) {
      out.positional.push_back(next());
    } else {
      fail_at(tokens_.at(), "an argument without a name stands behind one with a name");
    }
  }
  return out;
}

Tree ExpressionParser::filters_and_tests(Tree tree) {
  for (;;) {
    if (tokens_.is_operator("|")) {
      tree = filter(std::move(tree));
    } else if (tokens_.is_name("is")) {
      tree = test(std::move(tree));
    } else if (tokens_.is_operator("(")) {
      tree = call_of(std::move(tree));
    } else {
      return tree;
    }
  }
}

std::string ExpressionParser::dotted_name(const char* what) {
  std::string name = tokens_.expect_name(what);
  while (tokens_.take_operator(".")) name += "." + tokens_.expect_name(what);
  return name;
}

Tree ExpressionParser::filter(Tree input) {
  const Position at = tokens_.take().at;
  std::string name = dotted_name("the name of a filter");
  int height = input.height;
  ArgumentNodes given;
  if (tokens_.is_operator("(")) given = arguments(height);
  return make<FilterNode>(at, height, std::move(input.node), std::move(name), std::move(given));
}

// `x is divisibleby 3`: one argument may stand without parentheses, unless the word goes on with the expression.
bool ExpressionParser::starts_test_argument() const {
  switch (tokens_.peek().kind) {
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kFloat: return true;
    case TokenKind::kOperator: return tokens_.is_operator("[") || tokens_.is_operator("{");
    case TokenKind::kName: {
      static constexpr std::string_view kWords[] = {"else", "or", "and", "if", "is", "in", "not"};
      return std::find(std::begin(kWords), std::end(kWords), tokens_.peek().text) == std::end(kWords);
    }
    default: return false;
  }
}

Tree ExpressionParser::test(Tree input) {
  const Position at = tokens_.take().at;
  const bool negated = tokens_.take_name("not");
  std::string name = dotted_name("the name of a test");
  int height = input.height;
  ArgumentNodes given;
  if (tokens_.is_operator("(")) {
    given = arguments(height);
  } else if (starts_test_argument()) {
    Tree argument = postfix(primary());
    height = std::max(height, argument.height);
    given.positional.push_back(std::move(argument.node));
  }
  Tree tree = make<TestNode>(at, height, std::move(input.node), std::move(name), std::move(given));
  if (negated) tree = make<UnaryNode>(at, tree.height, logical_not, std::move(tree.node));
  return tree;
}

}  // namespace strata::text::jinja
