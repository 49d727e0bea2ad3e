package ai.edgemem;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;

/** Runs each static method of classes whose name begins with "test", and prints "ok NAME" or "failed NAME: why". */
public final class Check {
  /** Something that may throw. */
  public interface Action {
    void run() throws Exception;
  }

  private Check() {}

  public static void main(String[] args) throws ReflectiveOperationException {
    for (String name : args) {
      for (Method method : Class.forName(name).getDeclaredMethods()) {
        if (Modifier.isStatic(method.getModifiers()) && method.getName().startsWith("test")) {
          run(method);
        }
      }
    }
  }

  private static void run(Method method) throws IllegalAccessException {
    try {
      method.setAccessible(true);
      method.invoke(null);
      System.out.println("ok " + method.getName());
    } catch (InvocationTargetException e) {
      Throwable why = e.getCause();
      System.out.println(
          "failed " + method.getName() + ": " + why + " at " + Arrays.asList(why.getStackTrace()).subList(0, 3));
    }
  }

  public static void equal(Object expected, Object found) {
    if (!expected.equals(found)) {
      throw new AssertionError("expected " + expected + ", found " + found);
    }
  }

  public static void near(double expected, double found, double tolerance) {
    if (!(Math.abs(expected - found) <= tolerance)) {
      throw new AssertionError("expected " + expected + ", found " + found);
    }
  }

  /** The message of the exception that an action ends with. */
  public static String refusal(Class<? extends Exception> type, Action action) {
    try {
      action.run();
    } catch (Exception e) {
      if (type.isInstance(e)) {
        return e.getMessage();
      }
      throw new AssertionError("expected " + type.getSimpleName() + ", found " + e, e);
    }
    throw new AssertionError("there was no " + type.getSimpleName());
  }
}
