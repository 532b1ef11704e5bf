#include "text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>

#include "text/jinja/expression_parser.h"
#include "text/jinja/macros.h"

namespace strata::text::jinja {
namespace {

class Parser {
 public:
  Parser(std::vector<Token> tokens, NamePool& names) : tokens_(std::move(tokens), names), expressions_(tokens_) {}

  Block run() {
    Block out = block({});
    if (!tokens_.is(TokenKind::kEnd)) tokens_.unexpected("a statement");
    return out;
  }

 private:
  using StatementFn = StatementPtr (Parser::*)(Position at);
  struct Row {
    const char* tag;
    StatementFn parse;
  };
  static const Row kRows[];

  // Statements up to a block tag that begins with one of `ends`, whose name is next then; without `ends` all of them.
  Block block(std::initializer_list<std::string_view> ends) {
    if (++depth_ > kMaxNesting) fail_at(tokens_.at(), "blocks are nested more than {} deep", kMaxNesting);
    Block out;
    while (!tokens_.is(TokenKind::kEnd)) {
      const Position at = tokens_.at();
      if (tokens_.is(TokenKind::kText)) {
        out.push_back(std::make_unique<TextStatement>(at, tokens_.take().text));
        continue;
      }
      if (tokens_.is(TokenKind::kPrintBegin)) {
        tokens_.take();
        out.push_back(std::make_unique<PrintStatement>(at, expressions_.parse_tuple()));
        tokens_.expect(TokenKind::kPrintEnd, "'}}'");
        continue;
      }
      tokens_.expect(TokenKind::kBlockBegin, "a tag");
      if (std::find(ends.begin(), ends.end(), tokens_.peek().text) != ends.end()) break;
      out.push_back(statement(at));
    }
    --depth_;
    return out;
  }

  // A block up to {% `end` %}, which is taken.
  Block body(const char* end, Position at) {
    Block out = block({end});
    take_end(end, at);
    return out;
  }

  void take_end(const char* end, Position at) {
    if (!tokens_.take_name(end)) fail_at(at, "the block has no {{% {} %}}", end);
    if (std::string_view(end) == "endmacro" && tokens_.is(TokenKind::kName)) tokens_.take();
    close();
  }

  void close() { tokens_.expect(TokenKind::kBlockEnd, "'%}'"); }

  StatementPtr statement(Position at) {
    const std::string tag = tokens_.expect_name("the name of a statement");
    for (const Row* row = kRows; row->tag != nullptr; ++row) {
      if (tag == row->tag) return (this->*row->parse)(at);
    }
    fail_at(at, "unknown statement '{}'", printable(tag, kMaxNameBytes));
  }

  StatementPtr if_statement(Position at) {
    std::vector<IfStatement::Branch> branches;
    for (bool more = true; more;) {
      ExpressionPtr condition = expressions_.parse_tuple();
      close();
      Block then = block({"elif", "else", "endif"});
      branches.push_back({std::move(condition), std::move(then)});
      more = tokens_.take_name("elif");
    }
    if (tokens_.take_name("else")) {
      close();
      branches.push_back({nullptr, block({"endif"})});
    }
    take_end("endif", at);
    return std::make_unique<IfStatement>(at, std::move(branches));
  }

  StatementPtr for_statement(Position at) {
    ForStatement::Parts parts;
    parts.loop = tokens_.intern("loop");
    parts.target = target();
    if (!tokens_.take_name("in")) tokens_.unexpected("'in'");
    parts.iterable = expressions_.parse_iterable();
    if (tokens_.take_name("if")) parts.condition = expressions_.parse();
    if (tokens_.is_name("recursive")) fail_at(tokens_.at(), "recursive loops are not supported; use a macro");
    close();
    ++loops_;
    parts.body = block({"else", "endfor"});
    --loops_;
    if (tokens_.take_name("else")) {
      close();
      parts.otherwise = block({"endfor"});
    }
    take_end("endfor", at);
    return std::make_unique<ForStatement>(at, std::move(parts));
  }

  TargetPtr single_target() {
    if (tokens_.take_operator("(")) {
      TargetPtr out = target();
      tokens_.expect_operator(")");
      return out;
    }
    const std::string name = tokens_.expect_name("the name of a variable");
    if (tokens_.take_operator(".")) {
      return std::make_unique<AttributeTarget>(tokens_.intern(name), tokens_.expect_name("the name of an attribute"));
    }
    return std::make_unique<NameTarget>(tokens_.intern(name));
  }

  // a, or a, b, or (a, b), c.
  TargetPtr target() {
    if (++depth_ > kMaxNesting) fail_at(tokens_.at(), "names are nested more than {} deep", kMaxNesting);
    TargetPtr first = single_target();
    if (tokens_.is_operator(",")) {
      std::vector<TargetPtr> parts;
      parts.push_back(std::move(first));
      while (tokens_.take_operator(",")) {
        if (tokens_.is_name("in") || tokens_.is_operator("=") || tokens_.is_operator(")")) break;
        parts.push_back(single_target());
      }
      first = std::make_unique<TupleTarget>(std::move(parts));
    }
    --depth_;
    return first;
  }

  StatementPtr set_statement(Position at) {
    TargetPtr assigned = target();
    if (tokens_.take_operator("=")) {
      ExpressionPtr value = expressions_.parse_tuple();
      close();
      return std::make_unique<SetStatement>(at, std::move(assigned), std::move(value));
    }
    FilterChain filters;
    while (tokens_.take_operator("|")) filters.push_back(expressions_.parse_block_filter());
    close();
    return std::make_unique<CaptureStatement>(at, std::move(assigned), std::move(filters), isolated_body("endset", at));
  }

  StatementPtr filter_statement(Position at) {
    FilterChain filters;
    do {
      filters.push_back(expressions_.parse_block_filter());
    } while (tokens_.take_operator("|"));
    close();
    return std::make_unique<CaptureStatement>(at, nullptr, std::move(filters), isolated_body("endfilter", at));
  }

  // Loops around the block can't be left from inside it.
  Block isolated_body(const char* end, Position at) {
    const int loops = std::exchange(loops_, 0);
    Block out = body(end, at);
    loops_ = loops;
    return out;
  }

  std::vector<MacroDefinition::Parameter> parameters() {
    std::vector<MacroDefinition::Parameter> out;
    tokens_.expect_operator("(");
    while (!tokens_.take_operator(")")) {
      if (!out.empty()) {
        tokens_.expect_operator(",");
        if (tokens_.take_operator(")")) break;
      }
      const Name name = tokens_.intern(tokens_.expect_name("the name of a parameter"));
      ExpressionPtr fallback = tokens_.take_operator("=") ? expressions_.parse() : nullptr;
      out.push_back({name, std::move(fallback)});
    }
    return out;
  }

  MacroDefinition definition(std::string name, std::vector<MacroDefinition::Parameter> given, const char* end,
                             Position at) {
    const TokenStream::MacroReads outer = std::exchange(tokens_.macro_reads, {});
    MacroDefinition out;
    out.name = std::move(name);
    out.parameters = std::move(given);
    out.body = isolated_body(end, at);
    out.caller = tokens_.intern("caller");
    out.varargs = tokens_.macro_reads.varargs ? tokens_.intern("varargs") : nullptr;
    out.kwargs = tokens_.macro_reads.kwargs ? tokens_.intern("kwargs") : nullptr;
    tokens_.macro_reads = outer;
    return out;
  }

  StatementPtr macro_statement(Position at) {
    const std::string name = tokens_.expect_name("the name of a macro");
    auto given = parameters();
    close();
    return std::make_unique<MacroStatement>(at, tokens_.intern(name),
                                            definition(name, std::move(given), "endmacro", at));
  }

  StatementPtr call_statement(Position at) {
    std::vector<MacroDefinition::Parameter> given;
    if (tokens_.is_operator("(")) given = parameters();
    auto call = expressions_.parse_call();
    close();
    return std::make_unique<CallStatement>(at, std::move(call),
                                           definition("caller", std::move(given), "endcall", at));
  }

  StatementPtr with_statement(Position at) {
    ScopeStatement::Assignments assignments;
    while (!tokens_.is(TokenKind::kBlockEnd)) {
      if (!assignments.empty()) tokens_.expect_operator(",");
      TargetPtr name = single_target();
      tokens_.expect_operator("=");
      assignments.emplace_back(std::move(name), expressions_.parse());
    }
    close();
    return std::make_unique<ScopeStatement>(at, std::move(assignments), body("endwith", at));
  }

  StatementPtr generation_statement(Position at) {
    close();
    return std::make_unique<GenerationStatement>(at, body("endgeneration", at));
  }

  template <Flow flow>
  StatementPtr flow_statement(Position at) {
    if (loops_ == 0) fail_at(at, "break and continue belong into a loop");
    close();
    return std::make_unique<FlowStatement>(at, flow);
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int loops_ = 0;  // around the statement, up to the next macro or captured block
};

const Parser::Row Parser::kRows[] = {
    {"if", &Parser::if_statement},
    {"for", &Parser::for_statement},
    {"set", &Parser::set_statement},
    {"macro", &Parser::macro_statement},
    {"call", &Parser::call_statement},
    {"filter", &Parser::filter_statement},
    {"with", &Parser::with_statement},
    {"generation", &Parser::generation_statement},
    {"break", &Parser::flow_statement<Flow::kBreak>},
    {"continue", &Parser::flow_statement<Flow::kContinue>},
    {nullptr, nullptr},
};

}  // namespace

Block parse_template(std::string_view source, NamePool& names) { return Parser(tokenize(source), names).run(); }

}  // namespace strata::text::jinja
