package android.content.res;

public final class AssetManager {
    public native java.io.InputStream open(String name) throws java.io.IOException;
}
