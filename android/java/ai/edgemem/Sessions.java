package ai.edgemem;

import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtProvider;
import ai.onnxruntime.OrtSession;
import java.util.Collections;
import java.util.List;

/** Makes a session of ONNX Runtime with the provider that was asked for, or says aloud that the CPU takes its place. */
final class Sessions {
  /** A session, and who runs it. */
  static final class Made {
    final OrtSession session;
    final Provider provider;

    Made(OrtSession session, Provider provider) {
      this.session = session;
      this.provider = provider;
    }
  }

  private Sessions() {}

  /**
   * @param library that ONNX Runtime loads edgemem's allocator from, for a planned session
   * @param notes gets a sentence for what is not as it was asked for
   */
  static Made make(
      OrtEnvironment environment, byte[] model, PlannedModel.Options options, String library, List<String> notes)
      throws OrtException {
    Provider provider = options.provider;
    if (provider != Provider.CPU) {
      try {
        if (!isThere(provider)) {
          throw new OrtException("this build of ONNX Runtime does not have it");
        }
        OrtSession session = make(environment, model, options, provider, library, notes);
        if (options.planned) {
          notes.add(
              provider + " keeps memory of its own for operators that it takes: it is not in the plan or in the figures");
        }
        return new Made(session, provider);
      } catch (OrtException e) {
        notes.add(provider + " is not used: " + firstLine(e) + "; the CPU runs the model");
      }
    }
    return new Made(make(environment, model, options, Provider.CPU, library, true), Provider.CPU);
  }

  /**
   * A session with a provider beside the CPU. The Java API does not tell which operators it takes; so the session is
   * first asked for without the CPU, and with it where that is refused.
   */
  private static OrtSession make(
      OrtEnvironment environment,
      byte[] model,
      PlannedModel.Options options,
      Provider provider,
      String library,
      List<String> notes)
      throws OrtException {
    try {
      return make(environment, model, options, provider, library, false);
    } catch (OrtException e) {
      OrtSession session = make(environment, model, options, provider, library, true);
      notes.add(provider + " does not take every operator: the CPU runs the others, which may be all of them");
      return session;
    }
  }

  private static boolean isThere(Provider provider) {
    OrtProvider one = provider == Provider.NNAPI ? OrtProvider.NNAPI : OrtProvider.XNNPACK;
    return OrtEnvironment.getAvailableProviders().contains(one);
  }

  private static OrtSession make(
      OrtEnvironment environment,
      byte[] model,
      PlannedModel.Options options,
      Provider provider,
      String library,
      boolean mayUseCpu)
      throws OrtException {
    try (OrtSession.SessionOptions made = new OrtSession.SessionOptions()) {
      made.setIntraOpNumThreads(options.threads);
      made.setOptimizationLevel(options.level.named);
      if (options.planned) {
        made.registerCustomOpLibrary(library);
        made.addConfigEntry("session.use_env_allocators", "1");
        made.setMemoryPatternOptimization(false);
      }
      if (!mayUseCpu) {
        made.addConfigEntry("session.disable_cpu_ep_fallback", "1");
      }
      if (provider == Provider.XNNPACK) {
        made.addXnnpack(Collections.singletonMap("intra_op_num_threads", String.valueOf(Math.max(1, options.threads))));
      } else if (provider == Provider.NNAPI) {
        made.addNnapi();
      }
      return environment.createSession(model, made);
    }
  }

  private static String firstLine(OrtException e) {
    String message = String.valueOf(e.getMessage());
    int end = message.indexOf('\n');
    return end < 0 ? message : message.substring(0, end);
  }
}
