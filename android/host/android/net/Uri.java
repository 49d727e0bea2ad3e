package android.net;

/** A stand-in: the path of a file. */
public abstract class Uri {
  public static Uri ofFile(String path) {
    return new Uri() {
      @Override
      public String toString() {
        return path;
      }
    };
  }
}
