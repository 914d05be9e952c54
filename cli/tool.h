// What all tools share: the command line frame, --version, --diagnostics-format, and exit codes.
//
//   int main(int argc, char** argv) {
//     rtx::cli::Tool tool("rtx-import", "Converts an ONNX model to verified IR.");
//     std::string input;
//     tool.app.add_option("model", input, "ONNX file")->required();
//     return tool.run(argc, argv, [&]() -> rtx::Result<void> { ... return rtx::Ok{}; });
//   }
//
// Data goes to stdout, diagnostics to stderr. The exit code is 0 or the kind of the first error.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/text.h"

namespace rtx::cli {

class Tool {
 public:
  // `name` is the tool's own ("rtx-run"), `summary` one sentence.
  Tool(std::string name, const std::string& summary) : app(summary, name), name_(std::move(name)) {
    app.set_version_flag("--version", name_ + " " + RTX_VERSION, "Print the version and exit");
    app.add_option("--diagnostics-format", format_, "How errors and warnings are printed on stderr: text or json")
        ->check(CLI::IsMember({"text", "json"}))
        ->capture_default_str();
    app.get_formatter()->column_width(36);
  }

  // Add the tool's options here before run().
  CLI::App app;

  // Parses the arguments, calls `body`, prints its error. The result is the exit code.
  int run(int argc, const char* const* argv, const std::function<Result<void>()>& body) {
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& help_or_version) {
      return app.exit(help_or_version);
    } catch (const CLI::ParseError& error) {
      // The option may stand behind the argument that failed.
      for (int i = 1; i < argc; ++i) {
        std::string_view argument = argv[i], next = i + 1 < argc ? argv[i + 1] : "";
        if (argument == "--diagnostics-format=json" || (argument == "--diagnostics-format" && next == "json"))
          format_ = "json";
      }
      return fail(make_error(ErrorKind::usage, "E001", error.what()).with_help(concat("see ", name_, " --help")));
    }
    try {
      if (Result<void> result = body(); !result) return fail(result.error());
    } catch (const std::bad_alloc&) {
      return fail(make_error(ErrorKind::out_of_memory, "E802", "the host ran out of memory"));
    } catch (const std::exception& exception) {
      return fail(make_error(ErrorKind::internal, "E999", concat("uncaught exception: ", exception.what()))
                      .with_help("this is a bug in rtx; please report it with the command line"));
    }
    if (std::fflush(stdout) != 0 || std::ferror(stdout))
      return fail(make_error(ErrorKind::io, "E907", "cannot write to the standard output"));
    return 0;
  }

  // A warning or note that does not end the work.
  void print(const Diagnostic& diagnostic) const {
    std::string text = format_ == "json" ? to_json(diagnostic) + "\n" : to_string(diagnostic);
    // Without a place, the tool is the place.
    if (format_ != "json" && diagnostic.where.empty()) text = concat(name_, ": ", text);
    std::fputs(text.c_str(), stderr);
  }

  const std::string& name() const { return name_; }

 private:
  int fail(const Error& error) const {
    std::fflush(stdout);
    for (const Diagnostic& diagnostic : error.diagnostics) print(diagnostic);
    return static_cast<int>(error.first().kind);
  }

  std::string name_;
  std::string format_ = "text";
};

}  // namespace rtx::cli
