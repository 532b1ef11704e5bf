// strata: parses, builds, runs. A command is a file in commands/.
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/ending.h"
#include "base/format.h"
#include "base/log.h"
#include "cli/arguments.h"
#include "cli/help.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

// Long enough for two paths; what an error quotes from outside is shorter.
constexpr size_t kMaxErrorBytes = 8192;

int fail(const Error& error) {
  if (!error.message.empty()) write_stderr("strata: " + printable(error.message, kMaxErrorBytes) + "\n");
  return exit_code_of(error.code);
}

Error unknown_command(const std::string& word) {
  const char* kind = word.starts_with("-") ? "flag" : "command";
  return {ErrorCode::kBadInput, format("unknown {} '{}'; the commands are {}", kind, printable(word), command_names())};
}

LogLevel log_level(const Settings& settings) {
  const std::string& name = settings.text(Key::kLogLevel);
  return name == "debug" ? LogLevel::kDebug : name == "info" ? LogLevel::kInfo
       : name == "error" ? LogLevel::kError : LogLevel::kWarning;
}

Status run_command(const Command& command, Words args) {
  ASSIGN_OR_RETURN(Arguments arguments, parse_arguments(command, args));
  if (arguments.help) return write_stdout(command_help(command));
  RETURN_IF_ERROR(command.take_words(arguments.words, arguments.settings));
  RETURN_IF_ERROR(arguments.settings.load_environment(command.scope));
  set_log_level(log_level(arguments.settings));
  return command.run(arguments.settings);
}

Status run_program(Words args) {
  if (args.empty()) {
    write_stderr(program_help());
    return Error{ErrorCode::kBadInput, ""};
  }
  const std::string& word = args[0];
  if (word == "--help" || word == "-h") return write_stdout(program_help());
  if (word == "--version") return write_stdout(version_text() + "\n");
  const Command* command = find_command(word);
  return command == nullptr ? Status(unknown_command(word)) : run_command(*command, args.subspan(1));
}

}  // namespace
}  // namespace strata::cli

int main(int argc, char** argv) {
  using namespace strata;
  handle_ending_signals();
  const Status streams = cli::prepare_streams();
  try {
    if (!streams.ok()) return cli::fail(streams.error());
    const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
    const Status status = cli::run_program(args);
    return status.ok() ? 0 : cli::fail(status.error());
  } catch (const std::bad_alloc&) {
    return cli::fail({ErrorCode::kNoMemory, "out of memory"});
  } catch (const std::exception& error) {
    return cli::fail({ErrorCode::kInternal, format("unexpected failure: {}", error.what())});
  }
}
